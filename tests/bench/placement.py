# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""placement: what it takes to decide where a container goes and to book it, on 2 sockets x 8 CCX x 16 CPUs with 500
containers, against deciding by counting all containers anew with sets of CPUs, as one would write it first.

Both get the same containers in the same order and must choose places of the same size. Each decision stands alone: an
old container goes, a new one comes. The figure is the median on the slower of two layouts of that machine.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import Made, machine
from colocation.cri_proxy.cpus import members
from colocation.cri_proxy.ledger import Entry, Ledger, Who
from colocation.cri_proxy.placement import Layout, Shape, Want, choose

TARGET = 100.0
CONTAINERS = 500
DECISIONS = 1500
NAIVE_DECISIONS = 100
LAYOUTS = {
    "one NUMA node a socket": Made(sockets=2, numas=1, ccxs=8, cores=8, threads=2),
    "four NUMA nodes a socket": Made(sockets=2, numas=4, ccxs=2, cores=8, threads=2),
}


def wishes(count: int) -> list[Want]:
    """Mostly small containers, some of every size, a fifth of them batch."""
    chance = random.Random(7)
    sizes = [100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 20_000, 40_000, 70_000, 200_000]
    weights = [20, 20, 20, 20, 10, 5, 5, 3, 3, 3, 2, 1]
    return [Want(chance.choices(sizes, weights)[0], chance.random() < 0.2) for _number in range(count)]


def decide(ledger: Ledger, want: Want, number: int) -> int:
    """As the agent does: the neighbours, the choice, the booking. How many CPUs it is."""
    who = Who(f"sandbox{number // 2}", f"pod{number // 2}", "default", f"pod{number // 2}", f"main{number % 2}")
    near = ledger.near(who.sandbox)
    choice = choose(ledger.layout, ledger.loads, Want(want.milli, want.batch, near))
    if choice is None:
        raise SystemExit("there is a CPU, and no place")
    ledger.put(str(number), Entry(who, want.milli, choice.shape, choice.ccxs, 0, want.batch))
    return ledger.cpus(Entry(who, want.milli, choice.shape, choice.ccxs)).bit_count()


def decide_naively(layout: Layout, placed: list[tuple[frozenset[int], Want]], want: Want) -> int:
    """The same table, the emptiest of equals, with sets and by counting all containers for each place."""
    best: frozenset[int] = frozenset()
    best_rank: tuple[int, float] | None = None
    for shape in Shape:
        for place in layout.places[shape]:
            cpus = frozenset(members(place.cpus))
            if len(cpus) * 1000 < want.milli and shape is not Shape.MACHINE:
                continue
            asked = sum(max(100, other.milli) * len(cpus & theirs) / len(theirs) for theirs, other in placed)
            rank = (place.distance, asked / len(cpus))
            if best_rank is None or rank < best_rank:
                best, best_rank = cpus, rank
        if best:
            break
    placed.append((best, want))
    return len(best)


def measure(made: Made) -> tuple[list[float], list[float]]:
    """Microseconds of our decisions and of the naive ones."""
    layout = Layout.of(machine(made))
    wanted = wishes(CONTAINERS + DECISIONS)
    ledger = Ledger(layout)
    sizes, ours, theirs = [], [], []
    for number, want in enumerate(wanted):
        ledger.drop(str(number - CONTAINERS))
        began = time.perf_counter()
        sizes.append(decide(ledger, want, number))
        ours.append((time.perf_counter() - began) * 1e6)
    naive = [
        (frozenset(members(place_of(layout, sizes[number], number))), want)
        for number, want in enumerate(wanted[:CONTAINERS])
    ]
    for number in range(CONTAINERS, CONTAINERS + NAIVE_DECISIONS):
        naive.pop(0)
        began = time.perf_counter()
        size = decide_naively(layout, naive, wanted[number])
        theirs.append((time.perf_counter() - began) * 1e6)
        if size != sizes[number]:
            raise SystemExit(f"{wanted[number]} got {sizes[number]} CPUs from us and {size} naively")
    return ours[CONTAINERS:], theirs


def place_of(layout: Layout, size: int, number: int) -> int:
    """Some place of that size, for the naive list to begin with."""
    fitting = [place.cpus for places in layout.places for place in places if place.cpus.bit_count() == size]
    return fitting[number % len(fitting)]


def main() -> int:
    worst = 0.0
    for name, made in LAYOUTS.items():
        ours, naive = measure(made)
        middle, late = statistics.median(ours), statistics.quantiles(ours, n=100)[98]
        print(
            f"{name}: decision p50 {middle:.0f} µs, p99 {late:.0f} µs; counting anew p50 "
            f"{statistics.median(naive):.0f} µs, {statistics.median(naive) / middle:.0f} times as long"
        )
        worst = max(worst, middle)
    verdict = "PASS" if worst <= TARGET else "FAIL"
    print(f"placement: {worst:.0f} µs a decision with {CONTAINERS} containers (target <= {TARGET:.0f} µs) {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
