# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is explained is what is scored."""

from __future__ import annotations

import json

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import (
    BOTH,
    GIB,
    cluster,
    measure,
    pod,
    scores,
)
from colocation.common.status import Status, to_text
from colocation.common.status_page import to_html
from colocation.scheduler.explain import by_load, explain, to_document, to_table


def test_each_input_is_shown_and_the_scores_are_those_that_are_given() -> None:
    model = cluster("a b c")
    measure(model, 10.0, a=0.2, b=0.5, c=0.97)
    model.pod_is(pod("p", "a", cpu=1, memory=10 * GIB), 11.0)
    need = model.need_of(pod("", scheduler=BOTH))
    found = explain(model, BOTH, need, 15.0, model.nodes)
    assert [one.node for one in found] == ["a", "b", "c"]
    given = scores(model, 15.0, scheduler=BOTH)
    assert {one.node: one.score for one in found[1:]} == {name: given[name] for name in "bc"}
    cpu, memory = found[0].inputs
    assert (memory.judged_by, memory.age) == ("use", 5.0)
    assert (memory.measured, memory.in_flight, memory.requested) == pytest.approx((0.2, 0.1, 0.1))
    assert found[0].load == pytest.approx(0.2 + 0.1 + 0.01)
    assert found[2].load is None


def test_it_is_json_a_table_and_a_page() -> None:
    model = cluster("a b")
    measure(model, 10.0, a=0.2)
    need = model.need_of(pod(""))
    found = explain(model, BOTH, need, 15.0, model.nodes)
    document = json.loads(json.dumps(to_document(BOTH, need, found)))
    assert {one["node"]: one["inputs"][0]["judged_by"] for one in document["nodes"]} == {"a": "use", "b": "requests"}
    table = to_table("Nodes", found)
    status = Status("explain", "1", "s", tables=(table,))
    assert "20.0%" in to_text(status)
    assert "20.0%" in to_html(status)
    assert len(table.rows) == 4


def test_only_the_named_nodes() -> None:
    model = cluster("a b c")
    need = model.need_of(pod(""))
    assert [one.node for one in explain(model, BOTH, need, 1.0, ["b", "unknown"])] == ["b"]


def test_the_best_come_first_and_the_full_last() -> None:
    model = cluster("a b c d")
    measure(model, 10.0, a=0.2, b=0.99, c=0.5, d=0.1)
    ranking = model.rankings[BOTH]
    assert by_load(ranking.rows(model.nodes), ranking.rules, model.need_of(pod(""))) == ["d", "a", "c", "b"]
