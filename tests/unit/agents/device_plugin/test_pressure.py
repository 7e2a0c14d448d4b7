# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pressure files, and the wait where the kernel gives no trigger. The trigger itself: tests/contract/agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colocation.device_plugin.pressure import Pressure, Stalls, parse, triggers

TEXT = """some avg10=12.50 avg60=1.00 avg300=0.10 total=1500000
full avg10=3.25 avg60=0.50 avg300=0.05 total=500000
"""


@pytest.mark.parametrize(
    ("text", "stalls"),
    [
        (TEXT, Stalls(12.5, 3.25, 1.5)),
        (TEXT.splitlines()[0], Stalls(12.5, 0.0, 1.5)),
        ("", None),
        ("some avg10=much", None),
    ],
)
def test_the_figures_of_a_pressure_file(text: str, stalls: Stalls | None) -> None:
    assert parse(text) == stalls


@pytest.mark.parametrize(
    ("stall", "window", "lines"),
    [
        (100, 1000, ("some 100000 1000000", "some 200000 2000000")),
        (100, 2000, ("some 100000 2000000", "some 100000 2000000")),
        (150, 3000, ("some 150000 3000000", "some 200000 4000000")),
    ],
)
def test_a_trigger_and_one_for_who_has_no_capability(stall: int, window: int, lines: tuple[str, str]) -> None:
    assert triggers(stall, window) == lines


@pytest.fixture(params=["missing", "read-only"])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pressure]:
    """A kernel that gives no trigger: no such file, or (psi=0) one that can't be opened."""
    file = tmp_path / "memory"
    if request.param == "read-only":
        file.mkdir()
    pressure = Pressure(100, 1000, str(file))
    yield pressure
    pressure.close()


def test_without_a_trigger_it_says_so_and_waits_all_the_same(without: Pressure) -> None:
    began = time.monotonic()
    assert without.wait(0.05) is False
    assert 0.04 < time.monotonic() - began < 5
    assert without.problem
    assert without.look() is None


def test_a_wait_can_be_ended_from_another_thread(without: Pressure) -> None:
    thread = threading.Timer(0.05, without.wake)
    thread.start()
    began = time.monotonic()
    assert without.wait(30) is False
    assert time.monotonic() - began < 10
    thread.join()
    without.wake()
    without.wake()
    assert without.wait(30) is False, "two calls end one wait at once"
    began = time.monotonic()
    assert without.wait(0.05) is False
    assert time.monotonic() - began > 0.04, "and only one"
