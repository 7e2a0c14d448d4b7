# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The plan of a fault drill."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.drill import (
    BLOWS,
    CONTROL_PLANE,
    LASTING,
    PASSING,
    Planned,
    plan,
)

NODES = ("worker1", "worker2")
LONG_ENOUGH = some.floats(60, 3600)
SEEDS = some.integers(0, 1 << 32)


@given(SEEDS, LONG_ENOUGH)
def test_a_seed_is_a_plan(seed: int, seconds: float) -> None:
    assert plan(seed, seconds, NODES) == plan(seed, seconds, NODES)


@given(SEEDS, LONG_ENOUGH)
def test_a_place_suffers_one_blow_at_a_time_and_is_relieved_before_the_end(seed: int, seconds: float) -> None:
    planned = plan(seed, seconds, NODES)
    for place in (*NODES, CONTROL_PLANE):
        blows = [each for each in planned if each.place == place and each.blow not in LASTING]
        assert all(one.at + one.lasting < next_one.at for one, next_one in pairwise(blows))
        assert all(each.at + each.lasting < seconds for each in blows)


@given(SEEDS, LONG_ENOUGH)
def test_what_a_node_does_not_get_over_comes_last_and_once(seed: int, seconds: float) -> None:
    last = [each for each in plan(seed, seconds, NODES) if each.blow in LASTING]
    assert sorted(each.place for each in last) == sorted(NODES)
    assert {each.at for each in last} == {seconds}
    assert len({each.blow for each in last}) == len(NODES)


@given(SEEDS)
def test_half_an_hour_has_every_blow_on_every_node(seed: int) -> None:
    planned = plan(seed, 1800, NODES)
    for node in NODES:
        assert {each.blow for each in planned if each.place == node} >= set(PASSING)


def test_every_blow_has_a_name_of_its_own() -> None:
    assert len(BLOWS) == len(PASSING) + len(LASTING) + 1


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_short_drill_has_only_what_stays(seconds: float) -> None:
    assert [each.blow in LASTING for each in plan(1, seconds, NODES)] == [True, True]


def test_plans_are_in_the_order_of_time() -> None:
    assert Planned(1.0, "worker2", "x", 0.0) < Planned(2.0, "worker1", "x", 0.0)
