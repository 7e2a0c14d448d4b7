# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What placement is worth on this machine: two processes that need a cache, on one CCX and on two.

Each gathers objects in random order from a working set of most of a CCX's cache (see `gather`). Two such sets don't fit
in one cache, so together each waits for memory. Real programs gain more or less, and some nothing.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colocation.cri_proxy import gather
from colocation.cri_proxy.cpus import members
from colocation.cri_proxy.topology import Machine

SHARE = 0.6  # of a CCX's cache that one process uses
BYTES_OF_ONE = 96  # of an object with what refers to it
USUAL_KIB = 8 << 10  # where the machine does not tell
MOST_KIB = 128 << 10
ROUNDS = 5
SECONDS = 0.5  # of one measurement


class NoEffect(Exception):
    """This machine has nothing to compare; the text says why."""


@dataclass(frozen=True, slots=True)
class Seats:
    """CPUs for two processes, one core each."""

    together: tuple[int, int]
    apart: tuple[int, int]
    kib: int  # of the cache that the first shares


@dataclass(frozen=True, slots=True)
class Effect:
    """Objects gathered in a second by each process, as medians."""

    alone: float
    apart: float
    together: float


def seats(machine: Machine) -> Seats:
    """Two cores of one CCX, and one of them with a core of the nearest other CCX."""
    groups = [ccx for ccx in machine.ccxs if ccx.cores]
    if len(groups) < 2:
        raise NoEffect("all CPUs of this machine share one cache, so processes can't be kept apart")
    first = next((ccx for ccx in groups if len(ccx.cores) > 1), None)
    if first is None:
        raise NoEffect("each CCX of this machine has one core, so nothing can be together")
    one, two = (next(members(core)) for core in first.cores[:2])
    other = min(
        (ccx for ccx in groups if ccx is not first),
        key=lambda ccx: (machine.distance(first.numa, ccx.numa), ccx.socket != first.socket, ccx.index),
    )
    return Seats((one, two), (one, next(members(other.cores[0]))), first.cache_kib or USUAL_KIB)


def measure(where: Seats, rounds: int = ROUNDS, seconds: float = SECONDS) -> Effect:
    """Take turns, so that what else the machine does meets all three."""
    count = max(1, int(min(where.kib, MOST_KIB) * 1024 * SHARE / BYTES_OF_ONE))
    ways: dict[str, Sequence[int]] = {"alone": where.apart[:1], "apart": where.apart, "together": where.together}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _round in range(rounds):
        for way, cpus in ways.items():
            found[way] += _side_by_side(cpus, count, seconds)
    return Effect(**{way: statistics.median(rates) for way, rates in found.items()})


def _side_by_side(cpus: Sequence[int], count: int, seconds: float) -> list[float]:
    """Objects gathered in a second by a process on each CPU, at the same time."""
    with contextlib.ExitStack() as opened:
        children = [opened.enter_context(_process(cpu, count, seconds)) for cpu in cpus]
        for cpu, child in zip(cpus, children, strict=True):
            if _line(child) != "ready":
                raise OSError(f"no process can be held to CPU {cpu}")
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        rates = [_line(child) for child in children]
    if not all(rates):
        raise OSError("a process that measured was ended")
    return [float(rate) for rate in rates]


@contextlib.contextmanager
def _process(cpu: int, count: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-IS", gather.__file__, str(cpu), str(count), str(seconds)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def told(where: Seats, effect: Effect) -> str:
    """For humans."""
    lines = [
        f"Processes that gather objects from {SHARE:.0%} of a cache of {where.kib} KiB, in CPUs {where.apart} or "
        f"{where.together}:",
        f"  one alone            {effect.alone / 1e6:8.1f} million objects a second",
        f"  two, on two CCXs     {effect.apart / 1e6:8.1f} each",
        f"  two, on one CCX      {effect.together / 1e6:8.1f} each",
        f"Kept apart, each is {gain(effect):.2f} times as fast.",
    ]
    return "\n".join(lines) + "\n"


def gain(effect: Effect) -> float:
    """How many times as fast each is that has a cache for itself."""
    return effect.apart / effect.together
