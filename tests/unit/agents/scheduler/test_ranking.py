# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Tables that are kept up to date say the same as ones that are made anew."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import (
    BOTH,
    GIB,
    MEMORY,
    OVERSELL,
    cluster,
    measure,
    node,
    pod,
    scores,
)
from colocation.scheduler import ranking
from colocation.scheduler.cluster import Cluster
from colocation.scheduler.explain import explain
from colocation.scheduler.ranking import Ranking

NAMES = "a b c d"
PROFILES = (MEMORY, BOTH, OVERSELL)
CHANGE = st.one_of(
    st.tuples(st.just("measure"), st.sampled_from(NAMES.split()), st.floats(0, 1)),
    st.tuples(st.just("place"), st.sampled_from(NAMES.split()), st.floats(0, 30)),
    st.tuples(st.just("node"), st.sampled_from(NAMES.split()), st.floats(0, 1)),
    st.tuples(st.just("ask"), st.sampled_from(PROFILES), st.floats(0, 30)),
)


def answer(model: Cluster, made: Ranking, memory: float) -> dict[str, int]:
    need = model.need_of(pod("x", memory=memory * GIB))
    text = made.rank(NAMES.split(), need, "x", model.nodes).text
    return {one["Host"]: one["Score"] for one in json.loads(text)}


@given(st.lists(CHANGE, max_size=40))
def test_a_table_that_was_kept_says_what_a_new_one_says(changes: list[tuple[str, str, float]]) -> None:
    model = cluster(NAMES)
    for number, (what, name, amount) in enumerate(changes):
        now = float(number)
        if what == "measure":
            measure(model, now, **{name: amount})
        elif what == "place":
            model.pod_is(pod(f"p{number}", name, memory=amount * GIB), now)
        elif what == "node":
            if name in model.nodes:
                model.node_gone(name)
            else:
                model.node_is(node(name, memory=(1 + amount) * GIB))
        else:
            kept = model.rankings[name]
            fresh = Ranking(kept.rules)
            for known in model.nodes:
                fresh.touch(known)
            found = answer(model, kept, amount)
            assert found == answer(model, fresh, amount)
            need = model.need_of(pod("x", memory=amount * GIB))
            explained = {one.node: one.score for one in explain(model, name, need, now, model.nodes)}
            assert all(found[known] in (points, 10) for known, points in explained.items())


def test_the_best_gets_10_and_nobody_else() -> None:
    model = cluster(NAMES)
    measure(model, 1.0, a=0.30, b=0.31, c=0.9, d=0.99)
    found = scores(model, 2.0, NAMES)
    assert found == {"a": 10, "b": 6, "c": 1, "d": 0}


@given(st.lists(st.floats(0, 1.2), min_size=4, max_size=4), st.permutations([*NAMES.split(), "nobody"]))
def test_the_best_alone_is_the_same_choice(shares: list[float], names: list[str]) -> None:
    model = cluster(NAMES)
    measure(model, 1.0, **dict(zip(NAMES.split(), shares, strict=True)))
    made, need = model.rankings[MEMORY], model.need_of(pod("x"))
    whole, alone = (made.rank(names, need, "x", model.nodes, only) for only in (False, True))
    assert alone[1:] == whole[1:]
    tens = [one for one in json.loads(whole.text) if one["Score"] == 10]
    assert json.loads(alone.text) == tens
    assert len(json.loads(whole.text)) == len(names)


def test_the_best_alone_is_answered_where_the_configuration_says_so() -> None:
    model = cluster(NAMES, "answer: best")
    measure(model, 1.0, a=0.30, b=0.31, c=0.9, d=0.99)
    assert scores(model, 2.0, NAMES) == {"a": 10}


def test_where_all_are_full_nobody_is_best() -> None:
    model = cluster(NAMES)
    measure(model, 1.0, a=0.97, b=0.98, c=0.99, d=1.2)
    ranked = model.prioritize(pod("p"), NAMES.split(), 2.0)
    assert ranked is not None
    assert ranked.favourite is None
    assert ranked.full == 4
    assert model.booked == 0


def test_kinds_of_pods_are_forgotten_when_there_are_many() -> None:
    model = cluster(NAMES)
    for number in range(3 * ranking.TABLES):
        model.prioritize(pod(f"p{number}", memory=number * GIB), NAMES.split(), 1.0)
    assert len(model.rankings[MEMORY]._tables) == ranking.TABLES


def test_the_log_of_changes_does_not_grow_for_ever() -> None:
    model = cluster(NAMES)
    for number in range(1000):
        measure(model, float(number), a=0.1)
        scores(model, float(number), NAMES)
    assert len(model.rankings[MEMORY]._log) < 200
