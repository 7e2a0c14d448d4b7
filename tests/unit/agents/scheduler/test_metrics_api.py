# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""metrics.k8s.io as a source, from the documents that metrics-server answers with."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB, node
from colocation.common.kube_api import ApiError, Document, KubeApi
from colocation.scheduler.metrics_api import PATH, MetricsApiSource
from colocation.scheduler.pods import Amount
from colocation.scheduler.sources import SourceError

NODES = {name: node(name) for name in "ab"}


class FakeApi(KubeApi):
    """Answers from a table."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def get(self, path: str, **query: str) -> Document:
        answer = self.answers[path.removeprefix(f"{PATH}/")]
        if isinstance(answer, Exception):
            raise answer
        return {"items": answer}


def item(name: str, cpu: Any = "2500m", memory: Any = "50Gi", stamp: str = "2026-01-01T00:00:30Z") -> Document:
    return {"metadata": {"name": name}, "timestamp": stamp, "window": "20s", "usage": {"cpu": cpu, "memory": memory}}


def test_nodes() -> None:
    sampling = MetricsApiSource(FakeApi(nodes=[item("a"), item("other"), "what?"]), pods=False).sample(NODES)
    cpu, memory = sampling.nodes["a"]
    assert cpu is not None
    assert memory is not None
    assert (cpu.share, memory.share) == (0.25, 0.5)
    assert cpu.stamp == memory.stamp == 1767225630.0
    assert set(sampling.nodes) == {"a"}
    assert sampling.problems == ("metrics.k8s.io has nothing of 1 of 2 nodes",)


@pytest.mark.parametrize("memory", ["-1Gi", "999999Gi"])
def test_what_can_not_be_is_no_number(memory: str) -> None:
    sampling = MetricsApiSource(FakeApi(nodes=[item("a", memory=memory)]), pods=False).sample(NODES)
    reading = sampling.nodes["a"][1]
    assert reading is not None
    assert math.isnan(reading.share)


def test_what_is_not_said_is_not_there() -> None:
    sampling = MetricsApiSource(FakeApi(nodes=[item("a", cpu="much", stamp="now")]), pods=False).sample(NODES)
    cpu, memory = sampling.nodes["a"]
    assert cpu is None
    assert memory is not None
    assert math.isnan(memory.stamp)


def test_pods() -> None:
    usage = [{"usage": {"cpu": "100m", "memory": "1Gi"}}, {"usage": {"cpu": "200m", "memory": "1Gi"}}]
    pods = [
        {"metadata": {"name": "p", "namespace": "d"}, "containers": usage},
        {"metadata": {"name": "starting", "namespace": "d"}, "containers": []},
    ]
    found = MetricsApiSource(FakeApi(nodes=[item("a"), item("b")], pods=pods), pods=True).sample(NODES).pods
    assert found == {"d/p": pytest.approx(Amount(0.3, 2 * GIB))}


@pytest.mark.parametrize(("status", "hint"), [(404, "is metrics-server installed?"), (403, "no")])
def test_what_the_api_refuses_is_told(status: int, hint: str) -> None:
    made = MetricsApiSource(FakeApi(nodes=ApiError("no", status)), pods=False)
    with pytest.raises(SourceError) as problem:
        made.sample(NODES)
    assert hint in str(problem.value)
