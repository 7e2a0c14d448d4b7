# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The accounting never offers what online pods use, answers in the direction of its figures, and forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.accounting import (
    Estimate,
    Expectation,
    Margins,
    Reading,
    Use,
    online,
    room,
    unreclaimable,
)

GIB = 1 << 30
BYTES = st.integers(0, 1 << 44)
READINGS = st.tuples(BYTES, BYTES).map(lambda pair: Reading(max(pair), min(pair)))
USES = st.lists(st.builds(Use, BYTES, BYTES), max_size=5)
MARGINS = st.builds(Margins, st.integers(0, 1 << 40), st.floats(0, 0.9))
RULES = st.builds(Estimate, st.sampled_from(("last", "peak", "percentile")), st.floats(0, 1000), st.floats(1, 100))


@given(READINGS, USES, MARGINS, BYTES)
def test_never_more_than_total_less_reserve_watermark_and_online(
    reading: Reading, uses: list[Use], margins: Margins, more: int
) -> None:
    used = online(reading, uses)
    most = reading.total - margins.reserve - reading.total * margins.watermark - used
    assert 0 <= room(reading, used + more, margins) <= max(0, most)


@given(READINGS, USES)
def test_holders_count_up_to_their_blocks(reading: Reading, uses: list[Use]) -> None:
    everything = reading.total - reading.available
    assert max(0, everything - sum(use.right for use in uses)) <= online(reading, uses) <= everything


@given(READINGS, USES, BYTES, MARGINS)
def test_more_in_use_is_never_more_on_offer(reading: Reading, uses: list[Use], taken: int, margins: Margins) -> None:
    fuller = Reading(reading.total, max(0, reading.available - taken))
    assert online(fuller, uses) >= online(reading, uses)
    assert room(fuller, online(fuller, uses), margins) <= room(reading, online(reading, uses), margins)


@given(st.lists(st.tuples(st.floats(0, 100), BYTES), min_size=1, max_size=30), RULES)
def test_what_is_expected_is_never_less_than_what_is_used(readings: list[tuple[float, int]], rule: Estimate) -> None:
    expectation, now = Expectation(rule), 0.0
    for passed, used in readings:
        now += passed
        assert expectation.after(used, now) >= used


@given(st.lists(st.tuples(st.floats(0, 100), BYTES, BYTES), min_size=1, max_size=30), RULES)
def test_a_higher_load_is_never_expected_to_be_lower(readings: list[tuple[float, int, int]], rule: Estimate) -> None:
    low, high, now = Expectation(rule), Expectation(rule), 0.0
    for passed, used, more in readings:
        now += passed
        assert low.after(used, now) <= high.after(used + more, now)


@given(st.lists(st.tuples(st.floats(0, 100), BYTES), min_size=1, max_size=40), st.floats(0, 300))
def test_the_peak_is_that_of_the_window(readings: list[tuple[float, int]], window: float) -> None:
    expectation, now, seen = Expectation(Estimate("peak", window)), 0.0, list[tuple[float, int]]()
    for passed, used in readings:
        now += passed
        seen.append((now, used))
        assert expectation.after(used, now) == max(u for when, u in seen if when >= now - window)


def test_the_three_choices() -> None:
    readings = [(float(second), used * GIB) for second, used in enumerate((1, 9, 2, 3, 4))]
    answers = {}
    for rule in (Estimate("last"), Estimate("peak", 10), Estimate("peak", 2), Estimate("percentile", 10, 80)):
        expectation = Expectation(rule)
        answers[rule.choice, rule.window] = [expectation.after(used, now) // GIB for now, used in readings]
    assert answers == {
        ("last", 300.0): [1, 9, 2, 3, 4],
        ("peak", 10): [1, 9, 9, 9, 9],
        ("peak", 2): [1, 9, 9, 9, 4],
        ("percentile", 10): [1, 9, 9, 9, 4],
    }


def test_a_clock_that_goes_back_changes_no_answer() -> None:
    expectation = Expectation(Estimate("peak", 10))
    assert [expectation.after(used, now) for used, now in ((5, 100.0), (3, 20.0), (2, 105.0), (1, 111.0))] == [
        5,
        5,
        5,
        2,
    ]


STAT = {
    "anon": 700,
    "file": 5000,
    "kernel": 300,
    "kernel_stack": 10,
    "pagetables": 20,
    "percpu": 5,
    "sock": 7,
    "shmem": 100,
    "inactive_anon": 500,
    "active_anon": 250,
    "inactive_file": 3000,
    "active_file": 1900,
    "unevictable": 50,
    "slab_reclaimable": 200,
    "slab_unreclaimable": 60,
}


def test_what_a_group_could_not_give_back() -> None:
    assert unreclaimable(STAT) == 500 + 250 + 50 + (300 - 200) + 7
    before_5_18 = {name: value for name, value in STAT.items() if name != "kernel"}
    assert unreclaimable(before_5_18) == 500 + 250 + 50 + (10 + 20 + 5 + 60) + 7
    assert unreclaimable({}) == 0


@pytest.mark.parametrize(
    ("what", "reading", "uses", "expected"),
    [
        ("page cache is available", Reading(100, 80), [], 20),
        ("a holder's use is no online use", Reading(100, 40), [Use(30, 50)], 30),
        ("what it uses above its blocks is", Reading(100, 20), [Use(60, 50)], 30),
        ("a guaranteed pod, a daemon, tmpfs and hugepages are all in the first figure", Reading(100, 10), [], 90),
        ("figures that do not fit each other", Reading(100, 95), [Use(50, 50)], 0),
    ],
)
def test_online_use(what: str, reading: Reading, uses: list[Use], expected: int) -> None:
    assert online(reading, uses) == expected, what


def test_the_watermark_is_rounded_against_the_offer() -> None:
    assert Margins(0, 0.1).watermark_bytes(101) == 11
    assert room(Reading(101, 101), 0, Margins(5, 0.1)) == 101 - 11 - 5
