# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The model of the cluster: pods count once, from the booking to the metrics; and everything ends."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import (
    GIB,
    best,
    cluster,
    config,
    measure,
    node,
    pod,
    scores,
)
from colocation.scheduler import cluster as cluster_module
from colocation.scheduler.cluster import Cluster, Reading
from colocation.scheduler.pods import Amount

TIMES = "in_flight: {hold_seconds: 100, start_seconds: 200, booking_seconds: 10}"


def flying(model: Cluster, name: str = "a") -> float:
    """Gibibytes in flight to a node."""
    return model.nodes[name].flight[1] / GIB


def test_a_burst_is_spread_before_any_binding_is_seen() -> None:
    model = cluster("a b c", TIMES)
    measure(model, 1.0, a=0.1, b=0.1, c=0.3)
    chosen = [best(model, f"p{number}", 2.0) for number in range(30)]
    assert {name: chosen.count(name) for name in "abc"} == {"a": 15, "b": 15, "c": 0}


def test_without_in_flight_all_go_to_the_coldest() -> None:
    model = cluster("a b c", "in_flight: {enabled: false}")
    measure(model, 1.0, a=0.1, b=0.11, c=0.3)
    assert {best(model, f"p{number}", 2.0) for number in range(30)} == {"a"}


def test_equals_are_told_apart_by_their_names_always_in_the_same_way() -> None:
    def chosen() -> list[str | None]:
        model = cluster("a b c", "in_flight: {enabled: false}")
        measure(model, 1.0, a=0.1, b=0.1, c=0.1)
        return [best(model, f"p{number}", 2.0) for number in range(30)]

    assert chosen() == chosen()
    assert set(chosen()) == {"a", "b", "c"}


def test_a_booking_becomes_the_pod() -> None:
    model = cluster("a", TIMES)
    measure(model, 1.0, a=0.1)
    best(model, "p", 2.0, "a")
    assert (flying(model), model.booked) == (1, 1)
    model.pod_is(pod("p", "a"), 3.0)
    assert (flying(model), model.booked, model.counts.bookings_kept) == (1, 0, 1)
    assert model.nodes["a"].requested[1] == GIB


def test_a_booking_moves_to_where_the_pod_was_bound() -> None:
    model = cluster("a b", TIMES)
    measure(model, 1.0, a=0.1, b=0.2)
    assert best(model, "p", 2.0, "a b") == "a"
    model.pod_is(pod("p", "b"), 3.0)
    assert (flying(model, "a"), flying(model, "b"), model.counts.bookings_elsewhere) == (0, 1, 1)


def test_a_pod_that_is_tried_again_is_booked_once_and_not_against_itself() -> None:
    model = cluster("a b", TIMES)
    measure(model, 1.0, a=0.1, b=0.105)
    assert [best(model, "p", 2.0 + number, "a b") for number in range(5)] == ["a"] * 5
    assert flying(model) == 1


def test_a_booking_without_a_binding_ends_by_itself() -> None:
    model = cluster("a", TIMES)
    measure(model, 1.0, a=0.1)
    best(model, "p", 2.0, "a")
    model.advance(11.9)
    assert model.booked == 1
    model.advance(12.0)
    assert (flying(model), model.booked, model.counts.bookings_expired) == (0, 0, 1)


def test_a_pod_that_is_sent_back_leaves_its_booking_when_it_is_scored_again() -> None:
    model = cluster("a b", TIMES)
    measure(model, 1.0, a=0.1, b=0.2)
    assert best(model, "p", 2.0, "a b") == "a"
    measure(model, 3.0, a=0.5)
    assert best(model, "p", 4.0, "a b") == "b"
    assert (flying(model, "a"), flying(model, "b"), model.booked, model.counts.bookings_expired) == (0, 1, 1, 0)


def test_a_burst_outlasts_the_binding_of_its_last_pod() -> None:
    """Scored at 400 a second, bound at kube-scheduler's default of 50."""
    model, number = cluster(""), 17_000
    model.nodes_are(node(name, memory=number * GIB) for name in "abc")
    measure(model, 0.0, a=0.1, b=0.1, c=0.1)
    scored = 0
    for bound in range(number):
        while scored < min(number, bound * 8 + 1):
            best(model, f"p{scored}", scored / 400)
            scored += 1
        model.pod_is(pod(f"p{bound}", "a"), bound / 50)
        model.advance(bound / 50)
    counts = model.counts
    assert (counts.bookings_kept + counts.bookings_elsewhere, counts.bound_asked) == (number, number)


def test_a_pod_that_the_watch_saw_first_is_not_booked() -> None:
    model = cluster("a", TIMES)
    measure(model, 1.0, a=0.1)
    model.pod_is(pod("p", "a"), 2.0)
    best(model, "p", 3.0, "a")
    assert (flying(model), model.booked) == (1, 0)


def test_pods_of_any_scheduler_are_in_flight() -> None:
    model = cluster("a b", TIMES)
    measure(model, 1.0, a=0.1, b=0.105)
    model.pod_is(pod("other", "a", scheduler="default-scheduler"), 2.0)
    assert best(model, "p", 3.0, "a b") == "b"


def test_a_pod_is_held_from_its_start() -> None:
    model = cluster("a", TIMES)
    measure(model, 1.0, a=0.1)
    model.pod_is(pod("p", "a"), 10.0)
    model.pod_is(pod("p", "a", started=True), 60.0)
    model.advance(159.0)
    assert flying(model) == 1
    model.advance(160.0)
    assert flying(model) == 0


def test_a_pod_that_never_starts_does_not_count_for_ever() -> None:
    model = cluster("a", TIMES)
    model.pod_is(pod("p", "a"), 10.0)
    model.advance(309.0)
    assert flying(model) == 1
    model.advance(310.0)
    assert flying(model) == 0
    assert model.nodes["a"].requested[1] == GIB, "its request stays"


@pytest.mark.parametrize(("age", "flies"), [(None, 1), (30.0, 1), (99.0, 1), (101.0, 0)])
def test_a_pod_that_is_listed_is_as_old_as_it_is(age: float | None, flies: int) -> None:
    model = cluster("a", TIMES)
    model.pods_are([pod("p", "a", started=True, age=age)], 50.0)
    assert flying(model) == flies


def test_daemons_take_the_place_of_daemons() -> None:
    model = cluster("a", TIMES)
    model.pod_is(pod("p", "a", pinned=True), 1.0)
    assert flying(model) == 0
    assert model.nodes["a"].requested[1] == GIB


@pytest.mark.parametrize("how", ["finished", "evicted", "deleted", "gone from the list"])
def test_pods_that_are_over_leave_nothing(how: str) -> None:
    model = cluster("a", TIMES)
    model.pod_is(pod("p", "a"), 1.0)
    if how == "deleted":
        model.pod_gone("p")
    elif how == "gone from the list":
        model.pods_are([], 2.0)
    else:
        model.pod_is(pod("p", "a" if how == "finished" else "", finished=how == "finished"), 2.0)
    assert (flying(model), model.nodes["a"].requested, model.pods) == (0, [0, 0], 0)
    model.pod_gone("p")


def test_a_node_that_comes_back_has_its_pods_and_bookings() -> None:
    model = cluster("a b", TIMES)
    measure(model, 1.0, a=0.1, b=0.5)
    best(model, "booked", 2.0, "a b")
    model.pod_is(pod("p", "a"), 2.0)
    model.node_gone("a")
    assert scores(model, 3.0, "a b") == {"a": 0, "b": 10}
    model.pod_gone("unknown")
    model.node_is(node("a"))
    assert flying(model) == 2
    assert model.nodes["a"].requested[1] == 2 * GIB


def test_a_pod_may_be_seen_before_its_node() -> None:
    model = cluster("b", TIMES)
    model.pod_is(pod("p", "a"), 1.0)
    model.nodes_are([node("a"), node("b")])
    assert flying(model) == 1
    model.nodes_are([node("b")])
    assert "a" not in model.nodes


def test_a_pod_that_is_resized_asks_for_its_new_size() -> None:
    model = cluster("a", TIMES)
    model.pod_is(pod("p", "a"), 1.0)
    model.pod_is(pod("p", "a", memory=3 * GIB, started=True), 2.0)
    assert model.nodes["a"].requested[1] == 3 * GIB
    assert flying(model) == 0, "it has run here before"
    assert model.pods == 1


def test_a_sample_is_news_only_with_another_stamp_whatever_the_clocks_say() -> None:
    model = cluster("a", "stale_seconds: 60")
    for now in range(0, 100, 10):
        model.measured("a", (None, Reading(0.5, stamp=-1e9)), float(now))
        model.advance(float(now))
    assert not model.nodes["a"].fresh[1], "it has stood still for 90 s"
    model.measured("a", (None, Reading(0.5, stamp=-2e9)), 100.0)
    assert model.nodes["a"].fresh[1], "a clock that was set back is news too"


def test_the_age_that_a_source_tells_counts() -> None:
    model = cluster("a", "stale_seconds: 60")
    model.measured("a", (None, Reading(0.5, 1.0, age=70.0)), 100.0)
    assert not model.nodes["a"].fresh[1]


def test_names_that_are_no_nodes_score_nothing_and_break_nothing() -> None:
    model = cluster("a", TIMES)
    measure(model, 1.0, a=0.1)
    ranked = model.prioritize(pod("p", scheduler="mem-real-usage-scheduler"), ["new", "a", 'ev"il'], 2.0)
    assert ranked is not None
    assert (ranked.favourite, ranked.unknown, ranked.full) == ("a", 2, 0)
    assert scores(model, 2.0, "") == {}


def test_pods_of_a_scheduler_without_a_profile_are_none_of_our_business() -> None:
    model = cluster()
    assert model.prioritize(pod("p", scheduler="default-scheduler"), ["a"], 1.0) is None
    assert model.filter(pod("p", scheduler="default-scheduler"), ["a"], 1.0) == {}


FILTER = "profiles: {f: {filter: {memory: 0.8}}}\nstale_seconds: 60"


def test_the_filter_refuses_what_would_be_too_full_and_says_why() -> None:
    model = cluster("a b c d", FILTER)
    measure(model, 1.0, a=0.795, b=0.78)
    model.measured("c", (Reading(0.99, 1), Reading(0.1, 1)), 1.0)
    refused = model.filter(pod("p", scheduler="f"), ["a", "b", "c", "d", "unknown"], 2.0)
    assert refused == {"a": "memory would be used to 80%, more than 80%"}


def test_the_filter_never_refuses_by_stale_data_nor_a_daemon() -> None:
    model = cluster("a", FILTER)
    measure(model, 1.0, a=0.9)
    assert model.filter(pod("p", scheduler="f", pinned=True), ["a"], 2.0) == {}
    assert model.filter(pod("p", scheduler="f"), ["a"], 2.0) != {}
    model.advance(100.0)
    assert model.filter(pod("p", scheduler="f"), ["a"], 100.0) == {}


def test_the_filter_counts_what_is_in_flight_but_not_the_pod_itself_twice() -> None:
    model = cluster("a", FILTER)
    measure(model, 1.0, a=0.785)
    assert best(model, "p", 2.0, "a", "f") == "a"
    assert model.filter(pod("p", scheduler="f"), ["a"], 2.0) == {}
    best(model, "q", 2.0, "a", "f")
    assert model.filter(pod("p", scheduler="f"), ["a"], 2.0) != {}


def test_a_burst_does_not_run_over_the_threshold_of_the_one_node_that_is_left() -> None:
    """kube-scheduler takes it without asking for scores."""
    model = cluster("a b", FILTER + "\nin_flight: {booking_seconds: 10}")
    measure(model, 1.0, a=0.9, b=0.745)
    pods = [pod(f"p{number}", scheduler="f") for number in range(100)]
    passed = [one for one in pods if "b" not in model.filter(one, ["a", "b"], 2.0)]
    assert (passed, model.booked) == (pods[:5], 5)
    assert "b" not in model.filter(pods[0], ["a", "b"], 3.0), "tried again it takes its own room"
    model.pod_is(pod("p0", "b", scheduler="f"), 3.0)
    assert (model.counts.bookings_kept, model.counts.bound_asked, flying(model, "b")) == (1, 1, 5)
    model.advance(12.0)
    assert (flying(model, "b"), model.counts.bookings_expired) == (1, 4), "the others were not bound there"


def test_the_filter_books_nothing_where_scores_are_asked_for_next() -> None:
    model = cluster("a b", FILTER)
    measure(model, 1.0, a=0.1, b=0.9)
    for names in (["a", "unknown"], ["unknown"], ["b"], ["b", "b"], []):
        model.filter(pod("p", scheduler="f"), names, 2.0)
        assert model.booked == 0
    best(model, "p", 2.0, "a", "f")
    model.filter(pod("p", scheduler="f"), ["b"], 3.0)
    assert model.booked == 0, "it does not fit anywhere any more"


def test_a_learned_use_takes_the_place_of_the_request() -> None:
    model = cluster("a b", "in_flight: {estimate: learned, hold_seconds: 100}")
    measure(model, 1.0, a=0.1, b=0.1)
    model.pod_is(pod("old", "a", started=True, age=1000), 1.0)
    model.pod_is(pod("young", "a", started=True, age=10), 1.0)
    assert flying(model) == 1
    model.pods_measured({"d/old": Amount(0.5, 4 * GIB), "d/young": Amount(9, 99 * GIB), "d/unknown": Amount(1, 1)})
    model.pod_is(pod("new", "b"), 2.0)
    assert flying(model, "b") == 4
    model.pod_is(pod("other", "b", owner="d/Job/x"), 2.0)
    assert flying(model, "b") == 5, "of this one nothing is known but its request"


NODES = ("a", "b", "c")
PODS = tuple(f"p{number}" for number in range(8))


class Lifetimes(RuleBasedStateMachine):
    """Anything may happen in any order; what counts must be what a plain account says: each pod once, while due."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Cluster(config(TIMES))
        self.model.nodes_are(node(name) for name in NODES)
        self.now = 0.0
        self.booked: dict[str, tuple[str, float]] = {}  # where, and until when
        self.placed: dict[str, tuple[str, float, bool]] = {}  # where, until when, started
        self.there = set(NODES)

    def expire(self) -> None:
        self.booked = {uid: one for uid, one in self.booked.items() if one[1] > self.now}

    @rule(seconds=st.floats(0.1, 150))
    def time_goes_on(self, seconds: float) -> None:
        self.now += seconds
        self.model.advance(self.now)
        self.expire()

    @rule(name=st.sampled_from(NODES), share=st.floats(0, 1.2))
    def a_node_is_measured(self, name: str, share: float) -> None:
        self.now += 0.001
        measure(self.model, self.now, **{name: share})

    @rule(uid=st.sampled_from(PODS))
    def a_pod_is_scored(self, uid: str) -> None:
        self.model.advance(self.now)
        favourite = best(self.model, uid, self.now)
        self.booked.pop(uid, None)
        assert favourite is None or favourite in self.there
        if favourite is not None and uid not in self.placed:
            self.booked[uid] = (favourite, self.now + 10)

    @rule(uid=st.sampled_from(PODS), name=st.sampled_from(NODES))
    def a_pod_has_one_node(self, uid: str, name: str) -> None:
        self.model.advance(self.now)
        assert self.model.filter(pod(uid), [name], self.now) == {}
        self.booked.pop(uid, None)
        if name in self.there and uid not in self.placed:
            self.booked[uid] = (name, self.now + 10)

    @rule(uid=st.sampled_from(PODS), name=st.sampled_from(NODES), started=st.booleans())
    def a_pod_is_seen(self, uid: str, name: str, started: bool) -> None:
        where, until, was_started = self.placed.get(uid, (name, self.now + (100 if started else 300), started))
        if started and not was_started and until > self.now:
            until = self.now + 100
        self.model.advance(self.now)
        self.model.pod_is(pod(uid, where, started=started), self.now)
        self.booked.pop(uid, None)
        self.placed[uid] = (where, until, started or was_started)

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.placed)))
        self.model.pod_gone(uid)
        del self.placed[uid]

    @rule(name=st.sampled_from(NODES))
    def a_node_comes_or_goes(self, name: str) -> None:
        if name in self.there:
            self.model.node_gone(name)
            self.there.discard(name)
        else:
            self.model.advance(self.now)
            self.model.node_is(node(name))
            self.there.add(name)

    @invariant()
    def each_pod_counts_once_and_only_while_it_is_due(self) -> None:
        self.model.advance(self.now)
        self.expire()
        for name in self.there:
            load = self.model.nodes[name]
            flying = [
                uid for uid, (where, until, _started) in self.placed.items() if where == name and until > self.now
            ]
            booked = [uid for uid, (where, _until) in self.booked.items() if where == name]
            there = sum(where == name for where, _until, _started in self.placed.values())
            assert load.in_flight == len(flying) + len(booked)
            assert load.flight[1] == pytest.approx((len(flying) + len(booked)) * GIB)
            assert load.requested[1] == pytest.approx((there + len(booked)) * GIB)
        assert self.model.booked == len(self.booked)

    def teardown(self) -> None:
        self.model.advance(self.now + 1000)
        assert self.model.booked == 0
        assert self.model.in_flight == 0
        assert all(load.flight == [0, 0] for load in self.model.nodes.values())


TestLifetimes = Lifetimes.TestCase
TestLifetimes.settings = settings(max_examples=settings.default.max_examples, stateful_step_count=20)


def test_pods_that_were_bound_without_asking_us_are_counted() -> None:
    model = cluster()
    measure(model, 1.0, a=0.1, b=0.2, c=0.3)
    best(model, "asked", 2.0)
    for uid in ("asked", "unasked"):
        model.pod_is(pod(uid, "a"), 3.0)
        model.pod_is(pod(uid, "a", started=True), 4.0)
    model.pod_is(pod("theirs", "a", scheduler="default-scheduler"), 5.0)
    model.pod_is(pod("daemon", "a", pinned=True), 5.0)
    model.pods_are([pod(uid, "a", age=9.0) for uid in ("asked", "unasked", "listed")], 6.0)
    assert (model.counts.bound_asked, model.counts.bound_unasked) == (1, 1)


def test_a_pod_whose_booking_has_ended_was_asked_for_all_the_same() -> None:
    model = cluster()
    measure(model, 1.0, a=0.1, b=0.2, c=0.3)
    best(model, "late", 2.0)
    model.advance(1000.0)
    model.pod_is(pod("late", "a"), 1000.0)
    assert (model.counts.bookings_expired, model.counts.bound_asked, model.counts.bound_unasked) == (1, 1, 0)


def test_pods_that_are_never_bound_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "ASKED", 3)
    model = cluster()
    for number in range(9):
        best(model, f"p{number}", float(number))
    assert list(model._asked) == ["p6", "p7", "p8"]
