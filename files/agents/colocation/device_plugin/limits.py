# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How much memory a pod that holds blocks may have, and where that is written. No file is touched here.

The limit stands on the pod's own cgroup: its blocks, and what its containers without blocks may have by their own
limits. A container without blocks and without a limit lives within the blocks of the others. `kubepods` and the
levels of its quality of service belong to the kubelet: a path that is no pod's is refused.

Under the systemd driver a bare write would be undone by the next `systemctl daemon-reload`, so systemd is told: at
runtime only, and for units that the kubelet made for the moment it keeps that beside them and takes it away with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
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


def limits(pods: Sequence[PodHolding], block_bytes: int, others: Mapping[str, int]) -> tuple[Limit, ...]:
    """The limit of each pod whose cgroup is known; `others` has by UID what containers without blocks may have."""
    return tuple(
        Limit(pod.cgroup, len(pod.blocks) * block_bytes + others.get(pod.uid, 0))
        for pod in pods
        if pod.blocks and is_pod(pod.cgroup)
    )


def holds(limit: Limit, content: str, page: int) -> bool:
    """Whether what `memory.max` says is this limit; the kernel rounds down to whole pages."""
    text = content.strip()
    return text.isdigit() and int(text) == limit.bytes // page * page
