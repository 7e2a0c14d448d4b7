# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent around its engines: what is asked while the cluster changes, and reloads. Nothing is watched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import config, measure, node
from colocation.common.metrics import Registry
from colocation.scheduler import cluster as cluster_module
from colocation.scheduler.agent import ExtenderAgent
from colocation.scheduler.engine import Engine
from colocation.scheduler.score import judged

NOWHERE = "kubeconfig: /nowhere\n"


class ServerDouble:
    """Nobody asks it."""

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def agent(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExtenderAgent]:
    monkeypatch.setattr(Engine, "start", lambda _self: None)
    monkeypatch.setattr(ExtenderAgent, "_listen", lambda *_arguments: ServerDouble())
    made = ExtenderAgent(registry)
    made.configure(config(NOWHERE))
    yield made
    made.stop()


def engine_of(agent: ExtenderAgent) -> Engine:
    assert agent._answers is not None
    return agent._answers.engine


def test_nodes_come_and_go_while_status_and_metrics_are_asked(
    agent: ExtenderAgent, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(agent)
    engine.ask(lambda cluster, _now: cluster.nodes_are(map(node, "abc")))
    looks = itertools.count()

    def changing(*arguments: Any) -> Any:
        """Whenever a node is looked at another comes, and every second time one goes."""
        number = next(looks)
        engine.ask(lambda cluster, _now: cluster.node_is(node(f"n{number}")))
        if number % 2:
            engine.ask(lambda cluster, _now: cluster.node_gone(next(iter(cluster.nodes))))
        return judged(*arguments)

    monkeypatch.setattr(cluster_module, "judged", changing)
    agent.status()
    registry.render()
    assert next(looks) > 6


def test_a_stale_sample_that_counts_is_told_as_that(registry: Registry, agent: ExtenderAgent) -> None:
    agent.configure(config(NOWHERE + "profiles: {p: {stale: last}}"))
    agent._swap_by = 0.0
    agent.tick(lambda: None)
    model = engine_of(agent).cluster
    model.nodes_are(map(node, "ab"))
    measure(model, 1.0, a=0.2)
    model.advance(1000.0)
    metrics = registry.render()
    assert 'judged_nodes{profile="p",resource="memory",by="last"} 1' in metrics
    assert 'judged_nodes{profile="p",resource="memory",by="use"} 0' in metrics
    profiles = agent.status().tables[1]
    assert profiles.rows[0][profiles.columns.index("by last")] == 1


def test_who_goes_back_before_the_new_one_knows_the_cluster_stays(agent: ExtenderAgent) -> None:
    first = engine_of(agent)
    agent.configure(config(NOWHERE + "log_decisions: true"))
    other = agent._next
    assert other is not None
    agent.configure(config(NOWHERE))
    agent._swap_by = 0.0
    agent.tick(lambda: None)
    assert engine_of(agent) is first
    assert other._stopped.is_set()
    assert not first._stopped.is_set()


def test_a_list_that_broke_leaves_no_ghosts(agent: ExtenderAgent) -> None:
    engine = engine_of(agent)
    for watch, known in zip(engine.watches, (lambda: engine.cluster.nodes, lambda: engine.cluster._pods), strict=True):
        tell = watch._listener
        for name in ("ghost", "there"):
            tell.begins()
            tell.page([{"metadata": {"name": name, "uid": name}, "spec": {"nodeName": "there"}}])
        tell.listed()
        assert set(known()) == {"there"}
