# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which running containers should move, because others ended and left caches empty. Pure: a ledger in, moves out.

A move costs a container its warm cache, so one is proposed only where it leaves a place that is fuller by at least a
tenth of a CPU a CPU, and few in a round. Containers that hold CPUs alone, or run on the system's, stay.
"""

from __future__ import annotations

from collections.abc import Callable

from colocation.cri_proxy.cpus import union
from colocation.cri_proxy.ledger import Entry, Ledger, placed
from colocation.cri_proxy.placement import Want, choose

WORTH = 0.1  # how much emptier, in CPUs asked for a CPU, the new place must be


def moves(ledger: Ledger, want: Callable[[str, Entry], Want], apart: bool, most: int) -> list[tuple[str, Entry]]:
    """Up to `most` moves, the heaviest containers first, each booked in the ledger."""
    done: list[tuple[str, Entry]] = []
    shared = [(key, entry) for key, entry in ledger.items() if not (entry.alone or entry.system)]
    for key, entry in sorted(shared, key=lambda item: -item[1].milli):
        if len(done) == most:
            break
        ledger.drop(key)
        choice = choose(ledger.layout, ledger.loads, want(key, entry), apart)
        moved = placed(entry, choice) if choice is not None else entry
        if moved.ccxs != entry.ccxs and _load(ledger, entry) - _load(ledger, moved) >= WORTH:
            done.append((key, moved))
            ledger.put(key, moved)
        else:
            ledger.put(key, entry)
    return done


def _load(ledger: Ledger, entry: Entry) -> float:
    """What others asked for at a place, for each of its CPUs."""
    cpus = union(ledger.layout.ccx_cpus[index] for index in entry.ccxs) & ~ledger.loads.held
    return sum(ledger.loads.booked[index] for index in entry.ccxs) / 1e6 / max(1, cpus.bit_count())
