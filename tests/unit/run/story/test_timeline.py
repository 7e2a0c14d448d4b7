# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Series with gaps, without anything, with far too much."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.run.story.timeline import (
    Key,
    Sample,
    Timeline,
    from_document,
    is_number,
    rows,
    runs,
    thinned,
    to_document,
)

KEY, OTHER = Key("blocks", "worker1", "offered"), Key("blocks", "worker2", "offered")
values = st.one_of(st.floats(width=64), st.just(math.nan), st.just(math.inf))
series = st.lists(st.tuples(st.floats(0, 1e6), values).map(lambda pair: Sample(*pair)), max_size=60)


def samples(*pairs: tuple[float, float]) -> list[Sample]:
    return [Sample(*pair) for pair in pairs]


def test_a_line_breaks_where_nothing_was_measured() -> None:
    assert list(runs(samples((0, 1), (5, 2), (60, 3)), gap=25)) == [samples((0, 1), (5, 2)), samples((60, 3))]


def test_a_line_breaks_at_what_is_no_number() -> None:
    found = list(runs(samples((0, 1), (5, math.nan), (10, 2), (15, math.inf)), gap=25))
    assert found == [samples((0, 1)), samples((10, 2))]


def test_nothing_has_no_runs() -> None:
    assert list(runs([])) == []


@given(series)
def test_runs_have_every_number_once_in_the_order_of_time(found: list[Sample]) -> None:
    joined = [sample for run in runs(found) for sample in run]
    assert joined == sorted((s for s in found if is_number(s.value)), key=lambda s: s.at)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(-9, 9)), min_size=1, max_size=400), st.integers(4, 40))
def test_thinning_keeps_ends_and_extremes_and_little_else(pairs: list[tuple[int, int]], most: int) -> None:
    found = sorted(samples(*pairs))
    few = thinned(found, most)
    assert {few[0], few[-1]} == {found[0], found[-1]}
    assert min(s.value for s in few) == min(s.value for s in found)
    assert max(s.value for s in few) == max(s.value for s in found)
    assert len(few) <= most + 4
    assert few == sorted(few, key=lambda s: s.at)


def test_many_samples_at_one_time_are_thinned_too() -> None:
    assert len(thinned(samples(*((7, n) for n in range(1000))), 40)) <= 44


def test_a_table_has_the_last_number_of_each_slice() -> None:
    found = {KEY: samples((0, 1), (1, 2), (100, 3)), OTHER: samples((99.5, 7), (100, math.nan))}
    assert rows(found, [KEY, OTHER], 3) == [(1, (2, None)), (99.5, (None, 7)), (100, (3, None))]


def test_a_table_without_numbers_has_no_rows() -> None:
    assert rows({KEY: samples((0, math.nan))}, [KEY, OTHER], 10) == []


def test_a_document_brings_everything_back() -> None:
    timeline = Timeline()
    timeline.record(1.5, {KEY: 3, OTHER: math.nan})
    timeline.record(2.5, {KEY: 4})
    assert timeline.last(KEY) == 4
    assert timeline.last(OTHER) is None
    back = from_document(to_document(timeline.series()))
    assert back[KEY] == timeline.series()[KEY]
    assert math.isnan(back[OTHER][0].value)
