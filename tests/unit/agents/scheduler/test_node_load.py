# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node's load: what is in flight counts until it is measured, and never twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB, node
from colocation.scheduler.node_load import NodeLoad
from colocation.scheduler.pods import Amount
from colocation.scheduler.series import View

VIEWS = (View("last"), View("peak", 60.0))
POD = Amount(1.0, 10 * GIB)


class Measured:
    """A node of 10 cores and 100 GiB whose time goes on."""

    def __init__(self, share: float | None = None) -> None:
        self.load = NodeLoad(node("a"), len(VIEWS))
        self.now = 0.0
        if share is not None:
            self.sees(share)

    def sees(self, share: float) -> None:
        self.now += 10
        for resource in (0, 1):
            assert self.load.sample(resource, self.now, share, VIEWS, 300.0)

    def expects(self, view: int = 0) -> float:
        """Gibibytes."""
        expected = self.load.expected(view, 1, 0.0)
        assert expected is not None
        return expected / GIB


def test_a_pod_counts_at_once_and_no_more_when_it_is_measured() -> None:
    at = Measured(0.2)
    at.load.take_off(POD)
    assert at.expects() == pytest.approx(30)
    at.sees(0.2)
    assert at.expects() == pytest.approx(30), "the metrics lag"
    at.sees(0.26)
    assert at.expects() == pytest.approx(30), "a part of it shows"
    at.sees(0.3)
    assert at.expects() == pytest.approx(30), "all of it shows, and is not counted twice"
    at.load.land(POD)
    assert at.expects() == pytest.approx(30)


def test_a_pod_that_uses_less_than_expected_stops_counting_at_its_time() -> None:
    at = Measured(0.2)
    at.load.take_off(POD)
    at.sees(0.21)
    at.load.land(POD)
    assert at.expects() == pytest.approx(21)


def test_a_new_pod_counts_whole_where_others_used_more_than_expected() -> None:
    at = Measured(0.1)
    at.load.take_off(POD)
    at.sees(0.5)
    at.load.take_off(POD)
    assert at.expects() == pytest.approx(60)


def test_a_stream_of_pods_that_use_little_does_not_add_up() -> None:
    at = Measured(0.2)
    for _pod in range(100):
        at.load.take_off(POD)
        at.sees(0.2)
        at.load.land(POD)
        at.load.take_off(POD)
        at.load.land(POD)
    at.load.take_off(POD)
    assert at.expects() <= 30 + 1e-6


def test_load_that_ends_is_not_hidden_by_pods_in_flight() -> None:
    at = Measured(0.6)
    at.load.take_off(POD)
    at.sees(0.1)
    assert at.expects() == pytest.approx(20)


def test_a_pod_that_goes_before_it_is_measured_leaves_nothing() -> None:
    at = Measured(0.2)
    at.load.take_off(POD)
    at.load.vanish(POD)
    assert at.expects() == pytest.approx(20)
    assert at.load.flight == [0, 0]


def test_a_climbing_node_counts_as_it_will_be_but_not_beside_pods_that_make_it_climb() -> None:
    at = Measured(0.1)
    for share in (0.2, 0.3, 0.4):
        at.sees(share)
    climbed = at.load.expected(0, 1, 20.0)
    assert climbed == pytest.approx(60 * GIB)
    at.load.take_off(POD)
    assert at.load.expected(0, 1, 20.0) == pytest.approx(60 * GIB)


def test_a_node_that_shrinks_is_fuller() -> None:
    at = Measured(0.5)
    at.load.resize(node("a", memory=50 * GIB), VIEWS)
    assert at.expects() == pytest.approx(25)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("sees"), st.floats(0, 1)),
        st.tuples(st.just("take_off"), st.floats(0, 0.5)),
        st.tuples(st.sampled_from(["land", "vanish"]), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_what_is_pending_is_never_less_than_nothing_nor_more_than_what_flies(steps: list[tuple[str, float]]) -> None:
    at = Measured(0.3)
    flying: list[Amount] = []
    for what, number in steps:
        if what == "sees":
            at.sees(number)
        elif what == "take_off":
            flying.append(Amount(10 * number, 100 * GIB * number))
            at.load.take_off(flying[-1])
        elif flying:
            use = flying.pop(int(number) % len(flying))
            (at.load.land if what == "land" else at.load.vanish)(use)
        for view in range(len(VIEWS)):
            for resource in (0, 1):
                total = sum(use[resource] for use in flying)
                assert 0 <= at.load.pending(view, resource) <= total * (1 + 1e-9) + 1e-3
                seen = at.load.measured[2 * view + resource]
                assert seen is not None
                assert at.load.base[2 * view + resource] <= seen * (1 + 1e-12)
    assert at.load.in_flight == len(flying)
