# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When the scheduler's scenario takes a node for measured: kube-scheduler's leader asks any of the extenders."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.cluster.scenario_script import loaded

EVERY = 10.0  # seconds between an extender's samples


@pytest.fixture
def extenders(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return loaded("scheduler/extenders", monkeypatch)


class ClusterDouble:
    """Its extenders sample at their own times; each says its samples in order, and the last for ever."""

    def __init__(self, **samples: list[float]) -> None:
        self._samples = samples
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def extenders(self) -> list[str]:
        return list(self._samples)

    def inside(self, pod: str, *_words: str) -> str:
        self.now += 1
        phase = list(self._samples).index(pod) * EVERY / 2
        number, age = divmod(self.now + phase, EVERY)
        said = self._samples[pod]
        share = said[min(int(number), len(said) - 1)]
        nodes = [("worker1", share, age), ("worker2", 0.4, age)]
        return json.dumps(
            {"nodes": [{"node": node, "inputs": [{"measured": m, "age": a}]} for node, m, a in nodes], "says": pod}
        )


def run(extenders: ModuleType, cluster: ClusterDouble, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(extenders, "time", cluster)
    status: int = extenders.measured(cluster)
    return status


def test_it_waits_for_every_extender_and_until_the_use_stands_still(
    extenders: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ClusterDouble(one=[0.4, 0.85], other=[0.4, 0.4, 0.4, 0.7, 0.85])
    assert run(extenders, cluster, monkeypatch) == 0
    assert "worker1" in capsys.readouterr().out
    assert 4.5 * EVERY <= cluster.now < 6.5 * EVERY, "the other's sixth sample is the first that says the same again"


def test_a_node_that_does_not_get_fuller_is_told_when_the_time_is_over(
    extenders: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(extenders, ClusterDouble(one=[0.85], other=[0.5]), monkeypatch) == 1
    assert "not within 600 s" in capsys.readouterr().err


class AskedDouble(ClusterDouble):
    """Two pods came to worker1; an extender was asked for one of them."""

    def pods(self, *_words: str) -> list[dict[str, object]]:
        metadata = ({"namespace": "default", "name": name} for name in ("asked", "unasked"))
        return [{"metadata": one, "spec": {"nodeName": "worker1"}} for one in metadata]

    def ask(self, *words: str) -> str:
        return "info: decision: scored pod=default/asked favourite=worker1\n" if words[0] == "logs" else "holder"

    def inside(self, pod: str, *_words: str) -> str:
        return "colocation_scheduler_bookings 3\npython_info 1\n"


def test_it_tells_who_decided_for_the_pods_on_the_full_node(
    extenders: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extenders.landed(AskedDouble(one=[])) == 0
    told = capsys.readouterr().out.splitlines()
    assert "info: decision: scored pod=default/asked favourite=worker1" in told
    assert "colocation_scheduler_bookings 3" in told
    assert "python_info 1" not in told
    assert told[-1] == "no extender was asked, or in time, for: default/unasked"
