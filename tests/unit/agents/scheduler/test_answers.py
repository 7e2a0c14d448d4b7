# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What kube-scheduler asks and is answered, and what is told of it afterwards. Nothing is watched."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import (
    GIB,
    MEMORY,
    config,
    measure,
    node,
    pod,
)
from colocation.common.journal import LineFormatter
from colocation.common.metrics import Registry
from colocation.scheduler.answers import Answers
from colocation.scheduler.counters import Counters
from colocation.scheduler.engine import Engine
from colocation.scheduler.http_stream import Request


@pytest.fixture
def answers() -> Answers:
    """Of two nodes of 100 GiB, each used to 30 %."""
    engine = Engine(config("kubeconfig: /nowhere\nlog_decisions: true"))

    def begin(cluster: Any, now: float) -> None:
        cluster.nodes_are(map(node, "ab"))
        measure(cluster, now, a=0.3, b=0.3)

    engine.ask(begin)
    return Answers(engine, Counters(Registry()))


def ask(answers: Answers, name: str) -> str:
    """The node that is best for a pod of 10 GiB."""
    containers = [{"resources": {"requests": {"cpu": "1", "memory": "10Gi"}}}]
    spec = {"schedulerName": MEMORY, "containers": containers}
    document = {"metadata": {"namespace": "d", "name": name, "uid": name}, "spec": spec}
    body = json.dumps({"Pod": document, "NodeNames": ["a", "b"]}).encode()
    answer = answers.respond(Request("POST", "/prioritize", body))
    return next(str(one["Host"]) for one in json.loads(answer.body) if one["Score"] == 10)


def explained(answers: Answers, query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answers.respond(Request("GET", f"/explain?{query}")).body)
    return found


@pytest.mark.parametrize("bound", [False, True])
def test_a_pod_does_not_count_against_itself(answers: Answers, bound: bool) -> None:
    best = ask(answers, "p")
    if bound:
        answers.engine.ask(lambda cluster, now: cluster.pod_is(pod("p", best, cpu=1, memory=10 * GIB), now))
    found = explained(answers, "pod=d/p")
    assert [one["load"] for one in found["nodes"]] == pytest.approx([0.4, 0.4])
    assert [part["requested"] for one in found["nodes"] for part in one["inputs"]] == [0, 0]
    assert [part["in_flight"] for one in found["nodes"] for part in one["inputs"]] == [0, 0]
    others = explained(answers, f"profile={MEMORY}&node={best}")
    assert others["nodes"][0]["inputs"][0]["in_flight"] == pytest.approx(0.1), "for all others it is there"


def test_the_log_has_what_a_pod_was_decided_by(answers: Answers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "decision")
    for name in ("p", "q", "r"):
        ask(answers, name)
    lines = [LineFormatter(False).format(record) for record in caplog.records]
    for line, load, in_flight in zip(lines, (0.4, 0.4, 0.5), (0.0, 0.0, 0.1), strict=True):
        assert f" load={load} " in line
        assert f" memory_measured=0.3 memory_in_flight={in_flight} memory_requested={in_flight}" in line
