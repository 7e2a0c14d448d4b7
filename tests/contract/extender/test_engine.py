# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The engine beside a real API server: what is bound, finished, evicted and removed, and what breaks in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.extender.some_cluster import PODS, SomeCluster, until
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB, pod
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.fake_prometheus import FakePrometheus
from colocation.common import watching
from colocation.common.events import About, Reporter, Source
from colocation.common.kube_api import KubeApi
from colocation.common.retry import Backoff
from colocation.common.watching import Kind
from colocation.scheduler import engine as engine_module
from colocation.scheduler import teller
from colocation.scheduler.cluster import Cluster
from colocation.scheduler.engine import Engine, access_of
from colocation.scheduler.teller import Teller

Start = Callable[..., Engine]


def flying(engine: Engine, name: str) -> float | None:
    """Gibibytes in flight to a node; None while it is not known."""
    node = engine.cluster.nodes.get(name)
    return None if node is None else node.flight[1] / GIB


def best(engine: Engine, uid: str, *names: str) -> str | None:
    ranked = engine.ask(lambda cluster, now: cluster.prioritize(pod(uid, memory=10 * GIB), names, now))
    assert ranked is not None
    return ranked.favourite


def ready(engine: Engine, nodes: int) -> Engine:
    engine.start()
    until("all is known", lambda: engine.synced and engine.rounds.nodes == nodes)
    return engine


@pytest.fixture
def two(some: SomeCluster, prometheus: FakePrometheus, start: Start, request: pytest.FixtureRequest) -> Engine:
    """Nodes a and b, measured; a test may say more of the configuration."""
    some.node("a")
    some.node("b")
    prometheus.memory(a=20, b=25)
    prometheus.cpu(a=20, b=25)
    return ready(start(getattr(request, "param", "")), 2)


def test_from_the_booking_to_the_binding(two: Engine, some: SomeCluster) -> None:
    uid = some.pod("p")
    assert best(two, uid, "a", "b") == "a"
    assert (flying(two, "a"), two.cluster.booked) == (10, 1)
    some.bind("p", "b")
    until("the binding is seen", lambda: two.cluster.booked == 0)
    assert (flying(two, "a"), flying(two, "b")) == (0, 10)
    assert two.cluster.counts.bookings_elsewhere == 1


@pytest.mark.parametrize("how", ["finished", "failed", "evicted", "deleted"])
def test_pods_that_are_over(two: Engine, some: SomeCluster, how: str) -> None:
    some.pod("p", "a")
    until("it is seen", lambda: flying(two, "a") == 10)
    if how in ("finished", "failed"):
        some.phase("p", {"finished": "Succeeded", "failed": "Failed"}[how])
    elif how == "evicted":
        some.evict("p")
    else:
        some.delete(f"{PODS}/p")
    until("it counts no more", lambda: flying(two, "a") == 0)
    assert two.cluster.pods == 0


def test_daemons_and_nodes_that_come_and_go(two: Engine, some: SomeCluster, prometheus: FakePrometheus) -> None:
    some.pod("daemon", "a", owner="DaemonSet")
    until("the daemon is seen", lambda: two.cluster.pods == 1)
    assert flying(two, "a") == 0
    some.delete("/api/v1/nodes/a")
    until("the node is gone", lambda: flying(two, "a") is None)
    assert best(two, "x", "a", "b") == "b"
    some.node("a")
    until("it is back, with its pod", lambda: flying(two, "a") == 0)
    assert two.cluster.nodes["a"].requested[1] == 10 * GIB
    prometheus.memory(a=1, b=25)
    until("it is measured again", lambda: best(two, "y", "a", "b") == "a")


def test_an_api_server_that_dies_and_comes_back(two: Engine, some: SomeCluster, server: ApiServer) -> None:
    some.pod("before", "a")
    until("it is seen", lambda: flying(two, "a") == 10)
    server.kill()
    until("the watch is known to be broken", lambda: len([p for p in two.problems() if "can't be watched" in p]) == 2)
    assert best(two, "x", "a", "b") == "b", "questions are answered from memory"
    server.start()
    some.pod("after", "a")
    until("what came is seen", lambda: flying(two, "a") == 20)
    until("all is well", lambda: two.problems() == [], 60)


def test_what_broke_and_works_again_is_told_on_the_pod(
    two: Engine, some: SomeCluster, prometheus: FakePrometheus, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teller, "LEAST_SECONDS", 0.5)
    uid = some.pod("extender")
    api = KubeApi(access_of(two.config), backoff=Backoff(tries=1))
    tells = Teller(About("Pod", "extender", uid, "default"), Reporter(api, Source(teller.COMPONENT)), lambda: two)

    def told() -> list[tuple[str, str]]:
        selector = f"source={teller.COMPONENT},involvedObject.uid={uid}"
        found = some.client.items("/api/v1/namespaces/default/events", field_selector=selector)
        return sorted((one["type"], one["reason"]) for one in found)

    tells.start()
    try:
        prometheus.status = 503
        until("that is told", lambda: told() == [("Warning", "ColocationMeasuringFailed")])
        prometheus.status = 200
        until("its end is told", lambda: ("Normal", "ColocationMeasuringRecovered") in told())
        server.kill()
        until("the watch is known to be broken", lambda: any("can't be watched" in one for one in two.problems()))
        time.sleep(2 * teller.LOOK_SECONDS)  # nobody can be told now
        assert best(two, "x", "a", "b") == "a", "and nobody waits for that"
        server.start()
        until("both are told", lambda: {reason for _type, reason in told()} >= {
            "ColocationWatchFailed", "ColocationWatchRecovered",
        }, 60)  # fmt: skip
    finally:
        tells.stop()


def test_an_api_server_that_hangs(two: Engine, some: SomeCluster, server: ApiServer) -> None:
    server.pause()
    try:
        began = time.monotonic()
        assert best(two, "x", "a", "b") == "a"
        assert time.monotonic() - began < 1
    finally:
        server.resume()
    some.pod("after", "b")
    until("what came is seen", lambda: flying(two, "b") == 10)


def test_a_version_that_the_server_has_forgotten(
    some: SomeCluster, prometheus: FakePrometheus, start: Start, server: ApiServer
) -> None:
    some.node("a")
    server.kill()
    server.start()  # what was before is not in its memory
    some.pod("p", "a")
    engine = start()
    for watch in engine.watches:
        watch._version = "1"
    prometheus.memory(a=20)
    engine.start()
    until("all is listed anew", lambda: flying(engine, "a") == 10)
    assert [watch.health.lists for watch in engine.watches] == [1, 1]


def test_lists_of_many_pages(
    some: SomeCluster, prometheus: FakePrometheus, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "PODS", Kind("pods", "/api/v1/pods", 3, engine_module.PODS.selector))
    some.node("a")
    for number in range(8):
        some.pod(f"p{number}", "a", "1Gi")
    some.pod("nowhere")
    some.phase("p7", "Succeeded")
    prometheus.memory(a=20)
    assert flying(ready(start(), 1), "a") == 7


def test_a_watch_that_the_server_ends_goes_on(
    some: SomeCluster, prometheus: FakePrometheus, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "WATCH_SECONDS", 1)
    some.node("a")
    prometheus.memory(a=20)
    prometheus.cpu(a=20)
    engine = ready(start(), 1)
    for number in range(4):
        some.pod(f"p{number}", "a", "1Gi")
        until("it is seen", lambda: flying(engine, "a") == number + 1)  # noqa: B023
        time.sleep(0.5)  # longer, all in all, than a watch lasts
    assert [watch.health.lists for watch in engine.watches] == [1, 1]
    assert engine.problems() == []


def test_a_prometheus_that_dies_and_comes_back(two: Engine, prometheus: FakePrometheus) -> None:
    assert two.cluster.judged("mem-real-usage-scheduler") == {("memory", "use"): 2}
    prometheus.status = 503
    until("it is told", lambda: any("answers 503" in problem for problem in two.problems()))

    until("the nodes are judged by requests", lambda: judged(two) == {("memory", "requests"): 2})
    prometheus.status = 200
    until("all is well", lambda: two.problems() == [])
    assert two.cluster.judged("mem-real-usage-scheduler") == {("memory", "use"): 2}


def test_half_of_the_nodes_are_missing(two: Engine, prometheus: FakePrometheus) -> None:
    prometheus.memory(a=90)
    prometheus.cpu(a=90)
    half = {("memory", "use"): 1, ("memory", "requests"): 1}
    until("one is judged by its requests", lambda: judged(two) == half)
    until("it is told", lambda: "gives nothing for 1 of 2 nodes" in str(two.rounds.remarks))
    assert best(two, "u1", "a", "b") == "b", "nothing was promised there, and a is nearly full"
    prometheus.memory(a=20, b=97)
    prometheus.cpu(a=20, b=97)
    until("both are measured", lambda: judged(two) == {("memory", "use"): 2})
    until("a fresh value counts", lambda: best(two, "u2", "a", "b") == "a")


def test_a_unit_that_is_wrong_makes_nobody_look_idle(two: Engine, prometheus: FakePrometheus) -> None:
    prometheus.memory(a=0.97, b=0.5)
    until("it is told", lambda: "is it a ratio, not a percentage?" in str(two.problems()))
    until("the nodes are judged by requests", lambda: judged(two) == {("memory", "requests"): 2})
    prometheus.memory(a=97, b=50)
    until("all is well", lambda: two.problems() == [])
    assert judged(two) == {("memory", "use"): 2}


@pytest.mark.parametrize("two", ["queryMetricTimeSeconds: 1\n"], indirect=True)
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"wait": 3.0}, "did not answer"),
        ({"whole": b"<html>Log in</html>"}, "JSON"),
        ({"whole": b'{"status": "success", "data": []}'}, ""),
    ],
)
def test_a_prometheus_that_is_slow_or_wrong_holds_nobody_up(
    two: Engine, prometheus: FakePrometheus, trouble: dict[str, Any], told: str
) -> None:
    good = {name: getattr(prometheus, name) for name in trouble}
    for name, value in trouble.items():
        setattr(prometheus, name, value)
    until("it is told", lambda: two.rounds.problem and told in two.rounds.problem)
    began = time.monotonic()
    assert best(two, "u1", "a", "b") == "a"
    assert time.monotonic() - began < 1, "an answer waits for nobody"
    for name, value in good.items():
        setattr(prometheus, name, value)
    until("all is well", lambda: two.problems() == [])


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
def test_clocks_that_are_wrong_by_an_hour(two: Engine, prometheus: FakePrometheus, skew: float) -> None:
    prometheus.clock = skew
    time.sleep(two.config.stale_seconds + 1)  # what was measured before is stale
    until("they are judged by what was measured since", lambda: judged(two) == {("memory", "use"): 2})
    prometheus.memory(a=30, b=25)
    until("a new value counts", lambda: best(two, "u", "a", "b") == "b")


def judged(engine: Engine) -> dict[tuple[str, str], int]:
    """By what nodes are judged now."""

    def look(cluster: Cluster, now: float) -> dict[tuple[str, str], int]:
        cluster.advance(now)
        return {(name, how): count for (name, how), count in cluster.judged("mem-real-usage-scheduler").items()}

    return engine.ask(look)
