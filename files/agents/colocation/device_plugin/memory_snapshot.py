# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is known about a node's memory at one moment, for whoever decides on it: plain values, no files, no clock.

All sizes are bytes, times are of the monotonic clock. What could not be read is what was last known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that holds blocks."""

    namespace: str  # "" where only the kubelet's checkpoint knows the pod
    pod: str  # the same
    uid: str  # "" where only the PodResources list knows the pod
    container: str
    blocks: tuple[str, ...]
    cgroup: str = ""  # the pod's directory, absolute; "" where there is none
    used: int = 0  # what the whole pod holds and could not give back

    @property
    def name(self) -> str:
        """The pod as people name it."""
        return f"{self.namespace}/{self.pod}" if self.pod else self.uid


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of the memory that is offered by itself: a NUMA node, or all of it."""

    numa: int | None  # None: all of the node's memory
    total: int
    available: int
    online: int  # in use now by all but blocks
    expected: int  # what the target reckons with: at least `online`
    reserve: int
    watermark: int
    target: int  # blocks that may be offered
    allocated: int  # blocks that are held
    fits: int  # blocks that there is memory for beside `online`: at least the target


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The node's memory."""

    now: float
    read_at: float  # when the figures were read; `available` may be newer
    unit: int  # bytes of a block
    total: int
    available: int  # MemAvailable
    watermark: int
    reserve: int
    target: int  # blocks that may be offered
    allocated: int  # blocks that are held
    fits: int  # blocks that there is memory for now
    zones: tuple[Zone, ...]
    holders: tuple[Holder, ...]
    kubepods: str = ""  # the directory above all pods; "" where it was not found

    def at(self, now: float, available: int) -> MemorySnapshot:
        """The same with what is available now."""
        return replace(self, now=now, available=available)
