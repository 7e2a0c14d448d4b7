# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How much idle memory is offered, and how often too much: our account against the seed's formula, Koordinator's batch
formula and a fixed half, on the same four days.

Batch work takes what is offered and uses most of it; when more is held than the rule leaves to holders, its pods end
within some minutes. Idle is all that online work does not hold. An offer is too large in a second in which it, or the
one that stood when the second began, is more than that; what is held is not judged, for that is the reclaim's part, but
what has to be taken from holders is told. MemAvailable is made as the kernel makes it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.tests.bench._memory_rivals import (
    UNIT,
    Half,
    Koordinator,
    Ours,
    Rival,
    Seed,
    Sight,
)
from ansible_collections.colocation.kubernetes.tests.bench._memory_traces import DAY, GIB, MIB, TOTAL, TRACES, Moment
from colocation.device_plugin.memory_config import Memory

SEED = 2024
KEPT, LOW = 400 * MIB, 130 * MIB  # what the zones of such a machine keep, and their low watermark
MOST_OVER = 0.001  # of the time
VARIANTS = {"our choice 'last'": Memory(estimate="last"), "our choice 'percentile'": Memory(estimate="percentile")}


@dataclass(slots=True)
class Tally:
    """What an offer came to."""

    offered: int = 0
    idle: int = 0
    over: int = 0  # seconds
    resizes: int = 0
    taken: int = 0  # bytes that were taken from pods that held them
    seconds: int = 0

    @property
    def share(self) -> float:
        return self.offered / self.idle

    @property
    def over_share(self) -> float:
        return self.over / self.seconds

    def add(self, other: Tally) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Batch:
    """Batch pods of a node: they take every block, use a part of each, and go when they are told to."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.held = 0
        self.used = 0
        self.taken = 0

    def yield_to(self, online: int) -> None:
        """Online work takes what it wants: where there is not enough for both, batch pods are killed."""
        self.used = max(0, min(self.used, TOTAL - KEPT - online))

    def live(self, second: int, offered: int, fits: int) -> None:
        if offered >= self.held:
            self.held = offered
        elif fits < self.held and second % 10 == 0:
            before, self.held = self.held, max(fits, self.held - 2 * UNIT)
            self.taken += before - self.held
        wanted = self.held * 0.8
        self.used += int((wanted - self.used) * self._chance.uniform(0, 0.05))
        self.used = min(self.used, self.held)


def sight(second: int, moment: Moment, batch: Batch) -> Sight:
    """What the node shows."""
    held = moment.online + batch.used
    cache = max(0, min(moment.cache, TOTAL - held - KEPT))
    free = max(0, TOTAL - held - cache)
    available = max(0, free - KEPT + cache - min(cache // 2, LOW))
    return Sight(
        second,
        available,
        free,
        moment.system,
        moment.guaranteed + moment.burstable,
        moment.burstable + cache,
        batch.used,
        batch.held,
    )


def day(rival: Rival, trace: Iterator[Moment], seed: int) -> Tally:
    """One day of one rival."""
    tally, batch, before = Tally(), Batch(seed), -1
    for second, moment in enumerate(trace):
        batch.yield_to(moment.online)
        offered = rival.offer(sight(second, moment, batch))
        batch.live(second, offered, rival.fits if isinstance(rival, Ours) else offered)
        idle = TOTAL - moment.online
        tally.offered += offered
        tally.idle += idle
        tally.over += max(offered, before) > idle
        tally.resizes += offered != before and before >= 0
        tally.seconds += 1
        before = offered
    tally.taken = batch.taken
    return tally


def row(tally: Tally) -> str:
    """The figures under their heads."""
    hours = tally.seconds / 3600
    offered, taken = tally.offered / GIB / 3600, tally.taken / GIB / hours
    over, resizes = tally.over / 60, tally.resizes / hours
    return f"{offered:7.0f} {tally.share:8.1%} {over:9.2f} {resizes:10.1f} {taken:12.2f}"


def rivals() -> list[Rival]:
    ours = [Ours("ours"), *(Ours(name, settings) for name, settings in VARIANTS.items())]
    return [*ours, Seed(), Koordinator(), Half()]


def main() -> int:
    totals: dict[str, Tally] = {}
    worst: dict[str, float] = {}
    print(f"{'trace':12} {'':28} {'GiB·h':>7} {'of idle':>8} {'min over':>9} {'resizes/h':>10} {'GiB taken/h':>12}")
    for name, make in TRACES.items():
        for rival in rivals():
            tally = day(rival, make(SEED), SEED)
            totals.setdefault(rival.name, Tally()).add(tally)
            worst[rival.name] = max(worst.get(rival.name, 0.0), tally.over_share)
            print(f"{name:12} {rival.name:28} {row(tally)}")
    print(f"all {len(TRACES)} days of {DAY // 3600} h:")
    for name, tally in totals.items():
        print(f"{'':12} {name:28} {row(tally)}")
    ours = totals["ours"]
    safe = {name: tally for name, tally in totals.items() if worst[name] <= MOST_OVER and not name.startswith("our ")}
    best = max(safe, key=lambda name: safe[name].share, default="")
    verdict = "PASS" if best == "ours" else "FAIL"
    print(
        f"accounting: {ours.share:.1%} of idle memory offered, too much for {ours.over_share:.3%} of the time "
        f"(target the most of those ≤ {MOST_OVER:.1%}, which are {len(safe)} of 4) {verdict}"
    )
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
