# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The plan of a fault drill, and what comes of it. Nothing is struck: the cluster is a double."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster import cli, drill
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.drill import (
    BLOWS,
    CONTROL_PLANE,
    LASTING,
    ON_CONTROL_PLANE,
    PASSING,
    Planned,
    plan,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import ClusterError

NODES = ("worker1", "worker2")
LONG_ENOUGH = some.floats(60, 3600)
SEEDS = some.integers(0, 1 << 32)


@given(SEEDS, LONG_ENOUGH)
def test_a_seed_is_a_plan(seed: int, seconds: float) -> None:
    assert plan(seed, seconds, NODES) == plan(seed, seconds, NODES)


@given(SEEDS, LONG_ENOUGH)
def test_a_place_suffers_one_blow_at_a_time_and_is_relieved_before_the_end(seed: int, seconds: float) -> None:
    planned = plan(seed, seconds, NODES)
    for place in (*NODES, CONTROL_PLANE):
        blows = [each for each in planned if each.place == place and each.blow not in LASTING]
        ends = [each.at + each.lasting + BLOWS[each.blow].needs for each in blows]
        assert all(end < next_one.at for end, (_one, next_one) in zip(ends, pairwise(blows), strict=False))
        assert all(end < seconds for end in ends)


@given(SEEDS, LONG_ENOUGH)
def test_what_a_node_does_not_get_over_comes_last_and_once(seed: int, seconds: float) -> None:
    last = [each for each in plan(seed, seconds, NODES) if each.blow in LASTING]
    assert sorted(each.place for each in last) == sorted(NODES)
    assert {each.at for each in last} == {seconds}
    assert len({each.blow for each in last}) == len(NODES)


@given(SEEDS)
def test_half_an_hour_has_every_blow_on_every_node(seed: int) -> None:
    planned = plan(seed, 1800, NODES)
    for node in NODES:
        assert {each.blow for each in planned if each.place == node} >= set(PASSING)


def test_the_scenario_has_every_kind_of_blow_by_default() -> None:
    book = (Path(__file__).parents[3] / "molecule" / "drill" / "converge.yml").read_text()
    (seconds,), (seed,) = (re.findall(rf"'COLOCATION_DRILL_{word}'\) \| default\('(\d+)'", book)
                           for word in ("SECONDS", "SEED"))  # fmt: skip
    assert float(seconds) <= 150
    planned = {each.blow for each in plan(int(seed), float(seconds), NODES)}
    assert planned >= {*PASSING, ON_CONTROL_PLANE.name}
    assert len(planned & set(LASTING)) == len(NODES)


def test_every_blow_has_a_name_of_its_own() -> None:
    assert len(BLOWS) == len(PASSING) + len(LASTING) + 1


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_short_drill_has_only_what_stays(seconds: float) -> None:
    assert [each.blow in LASTING for each in plan(1, seconds, NODES)] == [True, True]


def test_plans_are_in_the_order_of_time() -> None:
    assert Planned(1.0, "worker2", "x", 0.0) < Planned(2.0, "worker1", "x", 0.0)


class ClusterDouble:
    """Remembers what it was asked; commands on nodes that hold a word of `refused` fail, so often."""

    def __init__(self, **refused: int) -> None:
        self.refused = refused
        self.asked: list[str] = []
        self.spec = SimpleNamespace(names=lambda: NODES[:1])
        self.world = SimpleNamespace(run=self._ask, ask=self._ask)

    def _ask(self, request: Any, _what: str = "") -> dict[str, Any]:
        return self._heard(json.dumps(request)) or {}

    def machine(self, name: str) -> Any:
        return SimpleNamespace(index=1, monitor=lambda command: self._heard(f"{name} {command}"))

    def ssh(self, node: str, command: str, limit: float) -> None:
        self._heard(f"{node} {command}")

    def kubectl(self, *words: str) -> str:
        self._heard(" ".join(words))
        return json.dumps({"items": [{"metadata": {"name": "a"}}]})

    def _heard(self, what: str) -> None:
        self.asked.append(what)
        for word, left in self.refused.items():
            if word in what and left:
                self.refused[word] -= 1
                raise ClusterError(f"no {word}")


def strike(monkeypatch: pytest.MonkeyPatch, cluster: ClusterDouble, *blows: str, seconds: float = 0.0) -> int:
    """Run the tool's command with a plan that has only these, at once."""
    for name, value in {"CHURN_SECONDS": 0.01, "AGAIN_SECONDS": 0.0, "PATIENCE": 0.05}.items():
        monkeypatch.setattr(drill, name, value)
    place = {ON_CONTROL_PLANE.name: CONTROL_PLANE}
    planned = [Planned(0.0, place.get(blow, "worker1"), blow, 0.0) for blow in blows]
    monkeypatch.setattr(drill, "plan", lambda *_arguments: planned)
    options: Any = SimpleNamespace(seed=1, seconds=seconds, selector="drill=yes", namespace="default")
    return cli._drill(options, cluster)  # type: ignore[arg-type]


def test_every_kind_is_struck_and_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ClusterDouble()
    assert strike(monkeypatch, cluster, *BLOWS) == 0
    out = capsys.readouterr().out
    assert all(f"1 of 1: {kind}\n" in out for kind in BLOWS)
    assert re.search(r"^\d+ pods deleted$", out, re.MULTILINE)
    assert cluster.asked.index("worker1 true") > cluster.asked.index("worker1 system_reset")


def test_only_the_units_own_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the group of containerd's go the shims, and all pods."""
    cluster = ClusterDouble()
    strike(monkeypatch, cluster, "containerd is killed")
    (killed,) = [words for words in cluster.asked if "systemctl kill" in words]
    assert "--kill-whom=main" in killed


def test_a_node_that_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterDouble(true=3)
    assert strike(monkeypatch, cluster, "the machine is reset", "the kubelet is killed") == 0
    assert [words.split()[1] for words in cluster.asked if words.startswith("worker1")] == [
        "system_reset",
        *["true"] * 4,
        "systemctl",
    ]


def test_the_api_server_is_waited_for_and_who_had_a_lease_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterDouble(readyz=3)
    assert strike(monkeypatch, cluster, ON_CONTROL_PLANE.name) == 0
    assert cluster.asked.count("get --raw /readyz") == 4
    controllers = [place for place, words in enumerate(cluster.asked) if "kube-controller-manager" in words]
    ready = max(place for place, words in enumerate(cluster.asked) if "readyz" in words)
    assert [place > ready for place in controllers] == [False, True]  # killed, and begun anew


@given(SEEDS)
def test_the_api_server_is_there_for_most_of_a_long_drill(seed: int) -> None:
    """Pods come and go meanwhile; it takes some ten seconds to start."""
    kills = [each for each in plan(seed, 1800, NODES) if each.place == CONTROL_PLANE]
    assert sum(each.lasting + 12 for each in kills) < 900


def test_pods_that_did_not_come_and_go_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when the API server is hardly ever there."""
    assert strike(monkeypatch, ClusterDouble(delete=10**9), "the kubelet is killed", seconds=60.0) == 1
    assert "only 0 pods deleted in 60 s" in capsys.readouterr().err


def test_a_kind_that_never_was_struck_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert strike(monkeypatch, ClusterDouble(kubelet=10**9), "the kubelet is killed", "containerd is killed") == 1
    said = capsys.readouterr()
    assert "0 of 1: the kubelet is killed\n1 of 1: " not in said.out  # in the order of their names
    assert "1 of 1: containerd is killed\n0 of 1: the kubelet is killed\n" in said.out
    assert said.err == "cluster: not struck once: the kubelet is killed\n"


@pytest.mark.parametrize("where", ["a place", "the churn"])
def test_what_ends_a_thread_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    cluster = ClusterDouble()

    def broken(*_arguments: Any) -> None:
        raise OSError("no such socket")

    if where == "a place":
        cluster.machine = broken  # type: ignore[method-assign, assignment]
    else:
        monkeypatch.setattr(cluster, "kubectl", broken)
        monkeypatch.setattr(ClusterDouble, "ssh", lambda *_words, **_more: drill.time.sleep(0.05))
    assert strike(monkeypatch, cluster, "the kubelet is killed", "the machine is reset") == 1
    assert "cluster: OSError: no such socket" in capsys.readouterr().err
