# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The text of a kubelet's /metrics/resource, as far as we use it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_LINE = re.compile(
    r"^(node|pod)_(cpu_usage_seconds_total|memory_working_set_bytes)(?:\{([^}\n]*)\})? ([^ \n]+)(?: (-?\d+))?$",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')
_CPU = "cpu_usage_seconds_total"
LEAST_BETWEEN = 1.0  # seconds of the kubelet's clock between two counts of processor time
MOST_APART = 20.0  # seconds by which its clock and ours may differ between them; it looks every 10 to 15
Timed = tuple[float, float]  # when, by the kubelet's clock, and how much


@dataclass(slots=True)
class KubeletUse:
    """Processor time in seconds of all cores since the start, memory in bytes; pods by namespace/name."""

    read: float = 0.0  # when, by our clock that never goes back
    processor: Timed | None = None
    memory: Timed | None = None
    pod_processor: dict[str, Timed] = field(default_factory=dict)
    pod_memory: dict[str, Timed] = field(default_factory=dict)


def read_resource_metrics(body: bytes, now: float, read: float = 0.0) -> KubeletUse:
    """What the text says; what carries no time is of `now`."""
    found = KubeletUse(read)
    for what, metric, labels, text, stamp in _LINE.findall(body.decode(errors="replace")):
        try:
            timed = (int(stamp) / 1000 if stamp else now, float(text))
        except (ValueError, OverflowError):
            continue
        if what == "pod":
            known = dict(_LABEL.findall(labels))
            pods = found.pod_processor if metric == _CPU else found.pod_memory
            pods[f"{known.get('namespace', '')}/{known.get('pod', '')}"] = timed
        elif metric == _CPU:
            found.processor = timed
        else:
            found.memory = timed
    return found


def rate(before: Timed | None, after: Timed | None, between: float) -> float:
    """Use in a second; no number where there is nothing to compare, the count began anew, or the kubelet's clock was
    set: `between` is the time between the two reads, and a look is at most some seconds old when it is read."""
    if before is None or after is None:
        return math.nan
    passed, used = after[0] - before[0], after[1] - before[1]
    good = passed >= LEAST_BETWEEN and abs(passed - between) <= MOST_APART and used >= 0
    return used / passed if good else math.nan


def same_look(before: Timed, after: Timed) -> bool:
    """Whether the kubelet has not looked again since."""
    return 0 <= after[0] - before[0] < LEAST_BETWEEN and after[1] >= before[1]
