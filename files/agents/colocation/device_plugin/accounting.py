# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How much memory may be offered as blocks: from what the kernel counts to bytes. Pure.

    online = used by all − used by the containers that hold blocks
    target = total − reserve − watermark − online as it is expected

*Used* is what nobody could give back: the kernel's MemAvailable knows that page cache and reclaimable slab are as good
as free, that tmpfs and hugepages are not, and which memory it keeps for itself. Of the holders of blocks we count the
same: anonymous and tmpfs pages, what is locked, and kernel memory that can't be reclaimed. Their page cache is not
taken off, for it is not in what is used.

A holder counts up to its blocks. What it uses above them is nobody's right, takes the place of other blocks, and so
stays in `online`. Guaranteed pods, system daemons and whatever else runs need no line here: they are in the first term.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Choice = Literal["last", "peak", "percentile"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The memory of one zone as the kernel counts it, in bytes."""

    total: int
    available: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a holder of blocks uses of one zone, and has a right to."""

    used: int
    right: int


@dataclass(frozen=True, slots=True)
class Margins:
    """What is never offered."""

    reserve: int = 0  # bytes
    watermark: float = 0.1  # of the total

    def watermark_bytes(self, total: int) -> int:
        return -int(-total * self.watermark // 1)  # rounded up


def online(reading: Reading, uses: Iterable[Use]) -> int:
    """What all but the blocks use."""
    used = max(0, reading.total - reading.available)
    return max(0, used - sum(min(max(0, use.used), use.right) for use in uses))


def room(reading: Reading, expected: int, margins: Margins) -> int:
    """Bytes that may be offered, those included that are held."""
    return max(0, reading.total - margins.reserve - margins.watermark_bytes(reading.total) - expected)


def unreclaimable(stat: Mapping[str, int]) -> int:
    """What a control group holds and could not give back, from its memory.stat.

    By the kernel's lists of pages, not by their kinds: pages that a program marked as free to take (MADV_FREE) are
    anonymous but on the list of files, and MemAvailable goes by the lists too.
    """
    pages = stat.get("active_anon", 0) + stat.get("inactive_anon", 0) + stat.get("unevictable", 0)
    if "kernel" in stat:  # Linux 5.18 and later
        kernel = stat["kernel"] - stat.get("slab_reclaimable", 0)
    else:
        kernel = sum(stat.get(name, 0) for name in ("kernel_stack", "pagetables", "percpu", "slab_unreclaimable"))
    return pages + max(0, kernel) + stat.get("sock", 0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """How the online use that is expected comes from what was seen."""

    choice: Choice = "peak"
    window: float = 300.0  # seconds
    percentile: float = 95.0


@dataclass(slots=True)
class Expectation:
    """The readings of a window and what is expected after them. Never less than is used now."""

    rule: Estimate
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _ordered: list[int] = field(default_factory=list)

    def after(self, used: int, now: float) -> int:
        """Take a reading; what is expected now."""
        if self.rule.choice == "last":
            return used
        if self._seen:
            now = max(now, self._seen[-1][0])
        self._seen.append((now, used))
        insort(self._ordered, used)
        while self._seen[0][0] < now - self.rule.window:
            self._ordered.remove(self._seen.popleft()[1])
        if self.rule.choice == "peak":
            return self._ordered[-1]
        rank = -int(-len(self._ordered) * self.rule.percentile // 100)  # the nearest rank
        return max(used, self._ordered[max(rank, 1) - 1])
