# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How much memory a pod that holds blocks may have, and where that is written. No file is touched here.

The limit stands on the pod's own cgroup: its blocks, and what its containers without blocks may have by their own
limits. A container without blocks and without a limit lives within the blocks of the others. `kubepods` and the
levels of its quality of service belong to the kubelet: a path that is no pod's is refused.

As long as the API did not tell which containers those are, the limits of the pod's running containers stand in for it,
and a limit that could be the right one stays: too low a limit ends a container, too high a one does not last.

Under the systemd driver a bare write would be undone by the next `systemctl daemon-reload`, so systemd is told: at
runtime only, and for units that the kubelet made for the moment it keeps that beside them and takes it away with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from colocation.device_plugin.reclaim_view import PodHolding

_UID = (
    r"[0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12}|[0-9a-f]{32}"  # static pods: a hash
)
_SLICE = re.compile(rf"kubepods(?:-burstable|-besteffort)?-pod(?:{_UID})\.slice|.*-kubepods.*-pod(?:{_UID})\.slice")
_PLAIN = re.compile(rf"pod(?:{_UID})")
UNLIMITED = "max"


@dataclass(frozen=True, slots=True)
class Limit:
    """What one pod may have."""

    cgroup: str
    bytes: int
    least: int | None = None  # where the right one is not known: a limit from here on stays as it is

    @property
    def unit(self) -> str:
        """The unit that systemd has for it; "" where the kubelet makes cgroups itself."""
        name = os.path.basename(self.cgroup)
        return name if name.endswith(".slice") else ""

    @property
    def file(self) -> str:
        return os.path.join(self.cgroup, "memory.max")

    @property
    def command(self) -> tuple[str, ...]:
        """What tells systemd."""
        return ("systemctl", "set-property", "--runtime", "--", self.unit, f"MemoryMax={self.bytes}")


def is_pod(cgroup: str) -> bool:
    """Whether a directory is one pod's own, and not of a level above or of a container below it."""
    name = os.path.basename(cgroup)
    plain = _PLAIN.fullmatch(name) and "kubepods" in cgroup.split("/")
    return cgroup.startswith("/") and bool(plain or _SLICE.fullmatch(name))


def limits(
    pods: Sequence[PodHolding],
    block_bytes: int,
    others: Mapping[str, int],
    running: Callable[[str], Sequence[int]],
) -> tuple[Limit, ...]:
    """The limit of each pod whose cgroup is known. `others` has by UID what containers without blocks may have, as far
    as that is known; `running` are the limits of the containers in a pod's cgroup."""
    return tuple(
        Limit(pod.cgroup, len(pod.blocks) * block_bytes + others[pod.uid])
        if pod.uid in others
        else _unknown(pod, block_bytes, running(pod.cgroup))
        for pod in pods
        if pod.blocks and is_pod(pod.cgroup)
    )


def _unknown(pod: PodHolding, block_bytes: int, running: Sequence[int]) -> Limit:
    """A limit that is not too low. Of a container's own limit it can't be told whether it has blocks (the CRI proxy
    made it of these) or none, so one that looks like blocks counts where a limit is made, and not where one stands."""
    blocks, rest = len(pod.blocks) * block_bytes, list(running)
    for holding in pod.holdings:
        if (size := len(holding.blocks) * block_bytes) in rest:
            rest.remove(size)
    return Limit(pod.cgroup, blocks + sum(running), blocks + sum(rest))


def holds(limit: Limit, content: str, page: int) -> bool:
    """Whether what `memory.max` says is this limit; the kernel rounds down to whole pages."""
    text = content.strip()
    if not text.isdigit():
        return False
    if limit.least is not None:
        return int(text) >= limit.least // page * page
    return int(text) == limit.bytes // page * page
