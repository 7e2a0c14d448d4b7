# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A day of a node's memory, second by second, made from a seed: the same seed always makes the same day.

A moment has what online work holds and could not give back (by who holds it, for rivals count some and not others) and
its page cache. What batch work uses comes from the offer that is tried, not from here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20
TOTAL = 64 * GIB
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Moment:
    """Bytes that online work holds."""

    system: int  # daemons, the kernel itself
    guaranteed: int
    burstable: int
    cache: int  # of burstable pods; it shrinks by itself when memory is wanted

    @property
    def online(self) -> int:
        return self.system + self.guaranteed + self.burstable


def _moments(
    burstable: Callable[[int], float], cache: Callable[[int], float], chance: random.Random
) -> Iterator[Moment]:
    for second in range(DAY):
        system = 2.5 * GIB + chance.gauss(0, 20 * MIB)
        guaranteed = 6 * GIB + 200 * MIB * math.sin(second / 700)
        held = min(max(burstable(second), GIB), TOTAL - 10 * GIB)
        yield Moment(int(system), int(guaranteed), int(held), int(cache(second)))


def diurnal(seed: int) -> Iterator[Moment]:
    """A service that follows the sun, with a little noise and three rollouts."""
    chance = random.Random(seed)
    rollouts = [chance.randrange(DAY) for _rollout in range(3)]

    def burstable(second: int) -> float:
        sun = (1 - math.cos(2 * math.pi * second / DAY)) / 2
        # for two minutes old and new pods run side by side
        rolling = sum(1.5 * GIB * min(1, (second - at) / 20) for at in rollouts if 0 <= second - at < 120)
        return 10 * GIB + 18 * GIB * sun + rolling + chance.gauss(0, 60 * MIB)

    return _moments(burstable, lambda _second: 9 * GIB, chance)


def bursty(seed: int) -> Iterator[Moment]:
    """Bursts of 1 to 12 GiB at any time, which rise in 1 to 30 seconds and last for minutes; three storms, which take
    three eighths of the node in five seconds."""
    chance = random.Random(seed)
    bursts, at = [], 0.0
    while (at := at + chance.expovariate(1 / 900)) < DAY:
        bursts.append((at, chance.uniform(1, 30), chance.uniform(60, 900), chance.uniform(1, 12) * GIB))
    bursts += [(chance.uniform(0, DAY), 5.0, 120.0, 0.375 * TOTAL) for _storm in range(3)]

    def burstable(second: int) -> float:
        height = 0.0
        for begin, rise, last, size in bursts:
            if begin <= second < begin + rise + last:
                height += size * min(1, (second - begin) / rise)
        return 14 * GIB + height + chance.gauss(0, 40 * MIB)

    return _moments(burstable, lambda _second: 6 * GIB, chance)


def leak(seed: int) -> Iterator[Moment]:
    """A program that leaks for hours until it is restarted; another one steps now and then."""
    chance = random.Random(seed)
    state = {"leaked": 0.0, "rate": 2.0 * MIB, "step": 0.0}

    def burstable(second: int) -> float:
        state["leaked"] += state["rate"] * chance.uniform(0.5, 1.5)
        if state["leaked"] > 24 * GIB:
            state["leaked"], state["rate"] = 0.0, chance.uniform(1, 3) * MIB
        if chance.random() < 1 / 3600:
            state["step"] = chance.uniform(0, 4) * GIB
        return 8 * GIB + state["leaked"] + state["step"] + chance.gauss(0, 30 * MIB)

    return _moments(burstable, lambda _second: 5 * GIB, chance)


def cache_heavy(seed: int) -> Iterator[Moment]:
    """A database that has all free memory in the page cache, and a backup that empties and fills it."""
    chance = random.Random(seed)

    def cache(second: int) -> float:
        return min(1.0, (second % 14_400) / 1800) * 40 * GIB

    def burstable(second: int) -> float:
        return 12 * GIB + 2 * GIB * math.sin(second / 3000) + chance.gauss(0, 50 * MIB)

    return _moments(burstable, cache, chance)


TRACES: dict[str, Callable[[int], Iterator[Moment]]] = {
    "diurnal": diurnal,
    "bursty": bursty,
    "leak": leak,
    "cache-heavy": cache_heavy,
}
