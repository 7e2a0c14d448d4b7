# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where a node's memory is, as one line for people. Pure.

It looks like this:
    ██████████████████▓▓▓▓▓▓░░░░░░░░░░░░···· online 9.20 GiB █, held 3.00 GiB ▓, free 6.00 GiB ░, kept back 1.80 GiB ·
"""

from __future__ import annotations

from collections.abc import Sequence

from colocation.device_plugin.memory_snapshot import MemorySnapshot, Zone

GIB = 1 << 30
WIDTH = 40
PARTS = (("online", "█"), ("held", "▓"), ("free", "░"), ("kept back", "·"))


def pictures(snapshot: MemorySnapshot) -> tuple[tuple[str, str], ...]:
    """A line for each zone, with its name."""
    return tuple(
        ("memory" if zone.numa is None else f"memory of NUMA node {zone.numa}", picture(zone, snapshot.unit))
        for zone in snapshot.zones
    )


def picture(zone: Zone, unit: int) -> str:
    """What all but blocks use, what blocks are held and free, and what is kept for the time to come."""
    held, free = zone.allocated * unit, max(0, zone.target - zone.allocated) * unit
    sizes = (zone.online, held, free, max(0, zone.total - zone.online - held - free))
    drawn = "".join(mark * cells for (_name, mark), cells in zip(PARTS, shares(sizes, WIDTH), strict=True))
    words = (f"{name} {size / GIB:.2f} GiB {mark}" for (name, mark), size in zip(PARTS, sizes, strict=True))
    return f"{drawn} {', '.join(words)}"


def shares(sizes: Sequence[int], cells: int) -> tuple[int, ...]:
    """How many of the cells each size gets: all are given, and none that is anything gets nothing."""
    whole = sum(sizes)
    if not whole:
        return (0,) * len(sizes)
    given = [int(size > 0) for size in sizes]
    while sum(given) < cells:
        wanting = [size * cells / whole - count for size, count in zip(sizes, given, strict=True)]
        given[wanting.index(max(wanting))] += 1
    return tuple(given)
