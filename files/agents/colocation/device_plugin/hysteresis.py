# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When the number of blocks on offer changes: down at once, up late. Pure; time is an argument.

Too much on offer is harm, too little is only waste. So it shrinks with the first reading that says so. It grows after
the cooldown only, to what *every* reading of that time allowed, by at least `debounce` blocks, and only when there is
`slack` of a block to spare: a load whose noise is smaller than that slack never makes it go to and fro.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damping:
    """How much a change has to deserve it."""

    cooldown: float = 60.0  # seconds before and between growths
    debounce: int = 1  # blocks
    slack: float = 0.5  # of a block


@dataclass(frozen=True, slots=True)
class Offer:
    """What is on offer, and what is remembered for the next answer."""

    blocks: int
    changed_at: float
    room: tuple[tuple[float, float], ...]  # readings of the cooldown: when, and how many blocks fit


def begin(room: float, now: float) -> Offer:
    """The first reading is taken as it is."""
    return Offer(_whole(room), now, ((now, room),))


def step(offer: Offer, room: float, now: float, damping: Damping) -> Offer:
    """What is on offer after a reading by which `room` blocks fit."""
    now = max(now, offer.room[-1][0])  # a clock that went back stands still
    readings = _trimmed((*offer.room, (now, room)), now - damping.cooldown)
    if _whole(room) < offer.blocks:
        return Offer(_whole(room), now, readings)
    whole_cooldown = readings[0][0] <= now - damping.cooldown and offer.changed_at <= now - damping.cooldown
    if whole_cooldown:
        least = min(fitted for _when, fitted in readings)
        grown = _whole(least - damping.slack)
        if grown >= offer.blocks + max(damping.debounce, 1):
            return Offer(grown, now, readings)
    return Offer(offer.blocks, offer.changed_at, readings)


def _trimmed(readings: Iterable[tuple[float, float]], since: float) -> tuple[tuple[float, float], ...]:
    """The readings since then, and the last one before, which held until the first of them."""
    kept = deque(readings)
    while len(kept) > 1 and kept[1][0] <= since:
        kept.popleft()
    return tuple(kept)


def _whole(blocks: float) -> int:
    return max(0, int(blocks))
