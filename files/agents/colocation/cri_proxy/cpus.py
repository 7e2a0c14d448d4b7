# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Sets of CPUs as whole numbers, bit n for CPU n, and the kernel's text for them ("0-7,32-39").

A number is hashed, compared, united and counted by one instruction of the interpreter, which is what lets a placement
look at every cache of a large machine within microseconds. Sets of NUMA nodes and of caches are written the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MOST_CPUS = 1 << 14  # more than the kernel can be built for


class BadCpuList(ValueError):
    """The text is no list of CPUs."""


def parse(text: str) -> int:
    """The set that a list such as "0-3,8" names; an empty text names none."""
    found = 0
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise BadCpuList(f'"{text.strip()[:60]}" is no list of CPUs such as "0-3,8"')
        low, high = int(first), int(last or first)
        if low > high:
            raise BadCpuList(f'"{part.strip()}" ends before it begins')
        if high >= MOST_CPUS:
            raise BadCpuList(f"there is no CPU {high}")
        found |= (1 << (high + 1)) - (1 << low)
    return found


def show(cpus: int) -> str:
    """The list that names a set, in the kernel's shortest form."""
    parts = []
    start = 0
    while cpus >> start:
        start += ((cpus >> start) & -(cpus >> start)).bit_length() - 1
        run = cpus >> start
        length = (~run & (run + 1)).bit_length() - 1
        parts.append(str(start) if length == 1 else f"{start}-{start + length - 1}")
        start += length
    return ",".join(parts)


def members(cpus: int) -> Iterator[int]:
    """The numbers in a set, rising."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


def of(numbers: Iterable[int]) -> int:
    """The set of these numbers."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def union(sets: Iterable[int]) -> int:
    """All of these sets together."""
    found = 0
    for cpus in sets:
        found |= cpus
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7
