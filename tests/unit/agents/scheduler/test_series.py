# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a series of samples says, and what it refuses to take."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.scheduler.series import Series, View

KEEP = 300.0
SHARES = st.floats(0, 1.5)


def series(*values: float, step: float = 10.0) -> Series:
    made = Series()
    for number, value in enumerate(values):
        assert made.add(number * step, value, KEEP)
    return made


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        (View("last"), 0.2),
        (View("mean", 300), 0.35),
        (View("mean", 10), 0.4),  # 0.6 and 0.2
        (View("peak", 300), 0.6),
        (View("peak", 5), 0.2),
        (View("percentile", 300, 50), 0.2),
        (View("percentile", 300, 75), 0.4),
        (View("percentile", 300, 100), 0.6),
        (View("percentile", 300, 0), 0.2),
    ],
)
def test_each_view_sees_its_part(view: View, seen: float) -> None:
    assert series(0.2, 0.4, 0.6, 0.2).seen(view) == pytest.approx(seen)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001])
def test_what_is_no_measured_value_is_not_taken(value: float) -> None:
    made = series(0.5)
    assert not made.add(100.0, value, KEEP)
    assert made.seen(View("last")) == 0.5


def test_a_sample_that_is_not_newer_is_no_news() -> None:
    made = series(0.1, 0.2)
    assert not made.add(10.0, 0.9, KEEP)
    assert not made.add(5.0, 0.9, KEEP)
    assert made.seen(View("peak", 300)) == 0.2


def test_old_samples_are_forgotten_but_never_the_last() -> None:
    made = series(*[0.9] * 5)
    made.add(10_000.0, 0.1, KEEP)
    assert list(made.values) == [0.1]


def test_a_climb_is_seen_and_a_fall_is_none() -> None:
    assert series(0.1, 0.2, 0.3, 0.4).slope() == pytest.approx(0.01)
    assert series(0.4, 0.3, 0.2, 0.1).slope() == 0
    assert series(0.1, 0.5, 0.9).slope() == 0, "too few to tell"


@given(st.lists(SHARES, min_size=1, max_size=40), st.floats(0, 100))
def test_every_view_stays_within_what_was_measured(values: list[float], percentile: float) -> None:
    made = series(*values)
    kept = list(made.values)
    for view in (View("last"), View("mean", 100), View("peak", 100), View("percentile", 100, percentile)):
        seen = made.seen(view)
        assert seen is not None
        assert min(kept) - 1e-9 <= seen <= max(kept) + 1e-9
    assert made.slope() >= 0
    assert made.times[0] >= made.times[-1] - KEEP
