# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Blocks of memory as devices: their names, which are offered, which go best together. Pure.

A block is no place in the memory, only a right to so much of it, so its name has just a NUMA node and a number. Names
are the same after every restart, and a block that is held stays on offer whatever the target is: as many are offered
of a zone as the target says or as are held, whichever is more, the held ones first and then the lowest numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

from colocation.device_plugin.devices import FRAME, HINT, Device, digits


@dataclass(frozen=True, slots=True)
class Share:
    """What is offered of one zone."""

    number: int  # in the blocks' names; 0 where all of the memory is one zone
    target: int
    hint: int | None = None  # the NUMA node that the kubelet is told


@dataclass(frozen=True, slots=True)
class Names:
    """How blocks are called."""

    prefix: str = "CM"

    def name(self, zone: int, number: int) -> str:
        return f"{self.prefix}-{zone}-{number}"

    def parse(self, id: str) -> tuple[int, int] | None:
        """Zone and number of a block; None for what is none of ours."""
        return _place(self.prefix, id)


@lru_cache(maxsize=1 << 14)  # the same few thousand names are asked for in each refresh
def _place(prefix: str, id: str) -> tuple[int, int] | None:
    found = re.fullmatch(rf"{re.escape(prefix)}-(0|[1-9]\d{{0,5}})-(0|[1-9]\d{{0,8}})", id, re.ASCII)
    return (int(found[1]), int(found[2])) if found else None


def size(names: Names, shares: Iterable[Share]) -> int:
    """Bytes of the list that the targets would make, for the kubelet takes only so many and they need not be made."""

    def each(share: Share) -> int:
        hint = 0 if share.hint is None else HINT if share.hint else HINT - 2  # a zero is not written
        return FRAME + hint + len(names.name(share.number, 0)) - 1

    return sum(share.target * each(share) + digits(share.target) for share in shares)


def allocated(names: Names, shares: Sequence[Share], held: Iterable[str]) -> dict[int, int]:
    """Blocks that are held, by zone."""
    counts = {share.number: 0 for share in shares}
    for id in held:
        counts[zone_of(names, counts, id)] += 1
    return counts


def zone_of(names: Names, zones: Collection[int], id: str) -> int:
    """Where a block counts. What has another name, or is of a zone that is no more, counts in the first."""
    place = names.parse(id)
    return place[0] if place and place[0] in zones else next(iter(zones))


def offer(names: Names, shares: Sequence[Share], held: Set[str]) -> tuple[Device, ...]:
    """The list for the kubelet: max(target, held) blocks of each zone, all that are held in front."""
    hints = {share.number: share.hint for share in shares}
    places = {id: names.parse(id) for id in held}
    numbers = {share.number: set[int]() for share in shares}
    for place in filter(None, places.values()):
        if place[0] in numbers:
            numbers[place[0]].add(place[1])
    ours = sorted((place, id) for id, place in places.items() if place)
    first = [Device(id, numa=hints.get(place[0])) for place, id in ours]
    foreign = [Device(id) for id in sorted(id for id, place in places.items() if place is None)]
    taken = allocated(names, shares, held)
    free = [
        Device(names.name(share.number, number), numa=share.hint)
        for share in shares
        for number in islice((n for n in count() if n not in numbers[share.number]), _room(share, taken))
    ]
    return (*first, *foreign, *free)


def _room(share: Share, taken: Mapping[int, int]) -> int:
    return max(0, share.target - taken[share.number])


def prefer(names: Names, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
    """Blocks for one container: of as few zones as can be, and of the zone that fits most tightly; lowest first."""
    chosen = list(must)[:size]
    used = {place[0] for place in map(names.parse, chosen) if place}
    zones: dict[int, list[tuple[int, str]]] = {}
    for id in set(available).difference(chosen):
        zone, number = names.parse(id) or (-1, 0)
        zones.setdefault(zone, []).append((number, id))

    def order(zone: int) -> tuple[bool, bool, int, int]:
        missing = len(zones[zone]) < size - len(chosen)
        room = len(zones[zone])
        return zone not in used, missing, -room if missing else room, zone

    for zone in sorted(zones, key=order):
        wanted = size - len(chosen)
        chosen += [id for _number, id in sorted(zones[zone])[:wanted]]
    return chosen
