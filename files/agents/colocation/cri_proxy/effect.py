# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What placement is worth on this machine: two processes that need a cache, on one CCX and on two.

Each gathers objects in random order from a working set of most of a CCX's cache, in one loop of Python's own C code. Two
such sets don't fit in one cache, so together each waits for memory. Real programs gain more or less, and some nothing.
"""

from __future__ import annotations

import operator
import os
import random
import select
import signal
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from colocation.cri_proxy.cpus import members
from colocation.cri_proxy.topology import Machine

SHARE = 0.6  # of a CCX's cache that one process uses
BYTES_OF_ONE = 96  # of an object with what refers to it
USUAL_KIB = 8 << 10  # where the machine does not tell
MOST_KIB = 128 << 10
ROUNDS = 5
SECONDS = 0.5  # of one measurement
LIMIT = 60.0  # until a process has begun, or has ended, on a machine that does much else
_RATE = struct.Struct("d")


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
    ready, begin, results = os.pipe(), os.pipe(), os.pipe()
    children = []
    try:
        for cpu in cpus:
            child = os.fork()
            if not child:
                _measure_and_exit(cpu, count, seconds, ready[1], begin, results[1])
            children.append(child)
        _wait_for(ready[0], len(cpus))
        os.close(begin[1])  # which all of them see
        content = _wait_for(results[0], len(cpus) * _RATE.size)
        return [rate for (rate,) in _RATE.iter_unpack(content)]
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for end in (*ready, begin[0], *results):
            os.close(end)


def _wait_for(pipe: int, size: int) -> bytes:
    """So many bytes; an OSError if they don't come."""
    content = b""
    while len(content) < size:
        if not select.select([pipe], [], [], LIMIT)[0]:
            raise OSError(f"a process that measures did not answer within {LIMIT:.0f} s")
        content += os.read(pipe, size - len(content))
    return content


def _measure_and_exit(cpu: int, count: int, seconds: float, ready: int, begin: tuple[int, int], result: int) -> None:
    """A child's life."""
    try:
        os.close(begin[1])
        os.sched_setaffinity(0, {cpu})
        order = list(range(max(2, count)))
        random.Random(cpu).shuffle(order)
        gather, content = operator.itemgetter(*order), [float(number) for number in order]
        gather(content)
        os.write(ready, b"!")
        os.read(begin[0], 1)
        done, began = 0, time.perf_counter()
        now = began
        while now < began + seconds:
            gather(content)
            done += len(order)
            now = time.perf_counter()
        os.write(result, _RATE.pack(done / (now - began)))
    finally:
        os._exit(0)


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
