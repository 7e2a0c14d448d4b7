# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether a node's clock is kept in step, and how far it is from another clock.

Skew is measured between two readings of the other clock, taken before and after: the transport may take seconds,
and only what lies outside those two readings is surely skew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[list[str]], tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class Clock:
    now: float
    synchronized: bool | None  # None: nothing on the node could tell
    told_by: str


def parse_timedatectl(text: str) -> bool | None:
    """`timedatectl show`: NTPSynchronized=yes|no."""
    for line in text.splitlines():
        key, _equals, value = line.strip().partition("=")
        if key == "NTPSynchronized" and value in ("yes", "no"):
            return value == "yes"
    return None


def parse_chronyc(text: str) -> bool | None:
    """`chronyc -c tracking`: the last field is the leap status, "Not synchronised" while there is no source."""
    fields = text.strip().split(",")
    if len(fields) < 14:
        return None
    return fields[-1].strip() != "Not synchronised"


SOURCES: tuple[tuple[list[str], Callable[[str], bool | None]], ...] = (
    (["timedatectl", "show"], parse_timedatectl),
    (["chronyc", "-c", "tracking"], parse_chronyc),
)


def read_clock(run: Run) -> Clock:
    """A single "yes" is believed: chrony may be in step before the kernel's flag says so."""
    answer: bool | None = None
    told_by = ""
    for command, parse in SOURCES:
        rc, out, _err = run(command)
        said = parse(out) if rc == 0 else None
        if said is not None:
            answer, told_by = said, command[0]
        if answer:
            break
    return Clock(now=time.time(), synchronized=answer, told_by=told_by)


def skew(before: float, node: float, after: float) -> float:
    """Seconds by which the node's clock is surely ahead (positive) or behind (negative)."""
    if node > after:
        return node - after
    return min(0.0, node - before)
