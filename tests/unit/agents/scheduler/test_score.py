# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The score: more load never scores higher, what is no number is never idle, and the examples of the documentation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import (
    BOTH,
    CPU,
    GIB,
    MEMORY,
    OVERSELL,
    cluster,
    measure,
    pod,
    scores,
)
from colocation.scheduler.cluster import Cluster, Reading
from colocation.scheduler.explain import explain
from colocation.scheduler.pods import Amount
from colocation.scheduler.score import FULL, Line, Side, load, score
from colocation.scheduler.series import MOST

SHARE = st.floats(0, 1.5)
ANY = st.floats(allow_nan=True, allow_infinity=True)
PROFILES = (MEMORY, CPU, BOTH, OVERSELL)


@given(ANY, st.floats(0.01, 1))
def test_a_score_is_from_0_to_9_and_10_is_kept(load: float, full_at: float) -> None:
    assert 0 <= score(load, full_at) <= 9


@given(SHARE, SHARE, st.floats(0.01, 1))
def test_more_load_never_scores_higher(one: float, other: float, full_at: float) -> None:
    assert score(min(one, other), full_at) >= score(max(one, other), full_at)


@pytest.mark.parametrize("load", [math.nan, math.inf, -math.inf, -0.1, FULL, 0.95, 1.2])
def test_what_is_full_or_no_number_scores_0(load: float) -> None:
    assert score(load, 0.95) == 0


@pytest.mark.parametrize("at", [math.nan, math.inf, 0.95])
def test_a_line_that_is_no_number_is_a_full_node(at: float) -> None:
    side = Side(1.0, (Line(0.1, 0.0, 0.0), Line(at, 0.0, 0.0)))
    assert load([side], Amount(0, 0), Amount(0, 0), (1,), 0.95) == FULL


def test_an_idle_node_scores_most() -> None:
    assert [score(load, 0.9) for load in (0, 0.1, 0.45, 0.89)] == [9, 9, 5, 1]


def test_a_node_that_is_really_full_scores_0_although_its_requests_look_free() -> None:
    """The demonstration of the system that this replaces: 33 points by requests, 0 by real memory."""
    model = cluster()
    for name in "ab":  # the requests of these two are higher
        for number in range(20):
            model.pod_is(pod(f"{name}{number}", name, started=True, age=10_000), 0.0)
    measure(model, 10.0, a=0.3, b=0.4, c=0.97)
    found = scores(model, 11.0)
    assert found["c"] == 0
    assert found["a"] == 10
    assert 0 < found["b"] < 10


@given(SHARE, SHARE, st.sampled_from(PROFILES))
def test_measured_load_never_scores_higher_when_it_grows(one: float, other: float, profile: str) -> None:
    def scored(share: float) -> int:
        model = cluster("a b")
        measure(model, 1.0, a=share, b=0.0)
        return scores(model, 2.0, "a b", profile)["a"]

    assert scored(min(one, other)) >= scored(max(one, other))


@given(st.one_of(ANY, SHARE), st.sampled_from(PROFILES))
def test_whatever_is_measured_a_score_is_from_0_to_10_and_nonsense_is_never_idle(share: float, profile: str) -> None:
    model = cluster("a b")
    for number in range(30):  # by its requests it is full
        model.pod_is(pod(f"p{number}", "a", cpu=0.32, memory=3.2 * GIB, started=True, age=10_000), 0.0)
    measure(model, 1.0, a=share, b=0.05)
    found = scores(model, 2.0, "a b", profile)
    assert all(0 <= points <= 10 for points in found.values())
    if not 0 <= share <= 1:
        assert found == {"a": 0, "b": 10}
        assert model.counts.bad_readings == (0 if 0 <= share <= MOST else 2)


def loads(model: Cluster, profile: str, now: float = 2.0) -> dict[str, float | None]:
    need = model.need_of(pod("x", cpu=0, memory=0, scheduler=profile))
    return {one.node: one.load for one in explain(model, profile, need, now, model.nodes)}


def requested(model: Cluster, name: str, share: float) -> None:
    """Pods that have run for long."""
    model.pod_is(pod(f"r-{name}", name, cpu=10 * share, memory=100 * GIB * share, started=True, age=10_000), 0.0)


@pytest.mark.parametrize(
    ("real", "asked", "factor", "floor", "counts"),
    [
        (0.2, 0.8, 0.5, 0.3, 0.5),  # 80 % requested at 20 % used counts like 50 %
        (0.2, 0.8, 1.0, 0.3, 0.8),  # plain requests
        (0.2, 0.8, 0.0, 0.3, 0.24),  # never less than the floor
        (0.7, 0.4, 0.5, 0.3, 0.7),  # more used than asked for
        (0.0, 0.0, 0.5, 0.3, 0.0),
    ],
)
def test_oversell_counts_requests_in_part(
    real: float, asked: float, factor: float, floor: float, counts: float
) -> None:
    model = cluster("a", f"profiles: {{o: {{weights: {{memory: 1}}, oversell: {{factor: {factor}, floor: {floor}}}}}}}")
    requested(model, "a", asked)
    measure(model, 1.0, a=real)
    assert loads(model, "o")["a"] == pytest.approx(counts)


def test_oversell_goes_back_to_plain_requests_when_data_are_stale() -> None:
    model = cluster("a", "stale_seconds: 60")
    requested(model, "a", 0.8)
    measure(model, 1.0, a=0.2)
    assert loads(model, OVERSELL)["a"] == pytest.approx(0.5)
    model.advance(70.0)
    assert loads(model, OVERSELL, 70.0)["a"] == pytest.approx(0.8)


def test_oversell_looks_at_peaks() -> None:
    model = cluster("a")
    requested(model, "a", 0.8)
    for time, share in ((1.0, 0.2), (20.0, 0.6), (40.0, 0.1)):
        measure(model, time, a=share)
    assert loads(model, OVERSELL, 41.0)["a"] == pytest.approx(0.7)


def test_one_full_resource_is_enough_and_weights_weigh() -> None:
    text = "profiles: {w: {weights: {cpu: 3, memory: 1}}}"
    model = cluster("a b", text)
    model.measured("a", (Reading(0.2, 1), Reading(0.6, 1)), 1.0)
    model.measured("b", (Reading(0.1, 1), Reading(0.96, 1)), 1.0)
    assert loads(model, "w") == {"a": pytest.approx(0.3), "b": None}


@pytest.mark.parametrize(("policy", "load"), [("requests", 0.5), ("last", 0.2), ("full", None)])
def test_a_stale_node_is_judged_as_the_profile_says(policy: str, load: float | None) -> None:
    model = cluster("a", f"profiles: {{p: {{stale: {policy}}}}}")
    requested(model, "a", 0.5)
    measure(model, 1.0, a=0.2)
    assert loads(model, "p")["a"] == pytest.approx(0.2)
    model.advance(1000.0)
    assert loads(model, "p", 1000.0)["a"] == (None if load is None else pytest.approx(load))
    assert model.judged("p") == {("memory", policy): 1}
