# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The module node_health: what it says of a node, how long it waits, and that check mode is the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.plugins.modules import node_health
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import HealthNode
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import SERVER


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HealthNode:
    node = HealthNode(tmp_path)
    monkeypatch.setattr(node_health, "ROOT", str(tmp_path))
    monkeypatch.setattr(node_health, "Outside", lambda _run: node.outside())
    return node


def run(check_mode: bool = False, **params: Any) -> dict[str, Any]:
    return call(node_health.main, check_mode, **params)


def test_a_healthy_node(node: HealthNode) -> None:
    answer = run()
    assert {key: answer[key] for key in ("changed", "healthy", "findings", "steps", "summary", "lines")} == {
        "changed": False,
        "healthy": True,
        "findings": [],
        "steps": [],
        "summary": "healthy",
        "lines": ["healthy"],
    }
    assert (answer["node"], answer["server"], answer["cgroup_driver"]) == ("worker1", SERVER, "systemd")
    assert (answer["kubelet_version"], answer["certificate_days_left"]) == ("1.36.3", 300.0)
    assert answer["authority_days_left"] > 10_000


def test_a_kubelet_that_takes_the_driver_of_containerd(node: HealthNode) -> None:
    """So that a repair does not give containerd another one under it."""
    node.answers["/usr/bin/containerd --version"] = (0, "containerd x 2.1.4 abc\n", "")
    node.runtime = dataclasses.replace(node.runtime, systemd_cgroup=False)
    assert run()["cgroup_driver"] == "cgroupfs"
    node.runtime = dataclasses.replace(node.runtime, systemd_cgroup=None)  # none that runs tells
    assert run()["cgroup_driver"] == "systemd"


def test_an_ill_node_for_people_and_for_playbooks(node: HealthNode) -> None:
    node.unit("containerd.service", ActiveState="failed", Result="exit-code")
    node.says("containerd.service", 'time="x" level=fatal msg="no \\"disk\\""')
    answer = run()
    assert not answer["healthy"] and answer["steps"] == ["containerd"]
    (finding,) = answer["findings"]
    assert (finding["id"], finding["severity"], finding["mendable"]) == ("containerd-stopped", "critical", True)
    assert answer["lines"] == [
        "1 critical",
        "  critical [containerd-stopped] containerd.service is failed (exit-code); last error: no 'disk'",
        "    -> systemctl start containerd (the repair does it: step containerd)",
    ]


def test_check_mode_is_the_same(node: HealthNode) -> None:
    node.unit("kubelet.service", UnitFileState="disabled")
    assert run() == run(check_mode=True)


def test_documented_results_are_all_and_are_of_their_types(node: HealthNode) -> None:
    import yaml

    node.unit("kubelet.service", UnitFileState="disabled")
    answer = run()
    documented = yaml.safe_load(node_health.RETURN)
    assert set(documented) == set(answer) - {"changed", "invocation", "warnings"}
    types = {"bool": bool, "list": list, "str": str, "dict": dict, "float": float}
    for name, entry in documented.items():
        assert isinstance(answer[name], types[entry["type"]]), name
    assert set(documented["findings"]["contains"]) == set(answer["findings"][0])


def test_a_node_where_nothing_is_left(node: HealthNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_health, "ROOT", str(tmp_path / "nowhere"))
    answer = run()
    assert not answer.get("failed") and not answer["healthy"]
    assert "Traceback" not in json.dumps(answer)


@pytest.mark.parametrize("name", ["part_timeout", "answer_timeout"])
def test_limits_are_limits(node: HealthNode, name: str) -> None:
    assert run(**{name: 0})["msg"] == f"{name} is 0; it must be more than 0 seconds"


@pytest.mark.parametrize(
    ("patience", "looks", "healthy"),
    [(0, 1, False), (100, 4, True), (4, 3, False)],
)
def test_patience(
    node: HealthNode, monkeypatch: pytest.MonkeyPatch, patience: float, looks: int, healthy: bool
) -> None:
    """A Node that gets ready at the fourth look; two seconds lie between two looks."""
    node.node = dataclasses.replace(node.node, readiness=Readiness(False, "not yet"))
    seen: list[float] = [0]
    clock = [0.0]

    def counted(look: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            seen[0] += 1
            if seen[0] == 4:
                node.node = dataclasses.replace(node.node, readiness=Readiness(True, ""))
            return look(*arguments)

        return count

    monkeypatch.setattr(node_health, "look", counted(node_health.look))
    monkeypatch.setattr(node_health.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(node_health.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    assert run(patience=patience)["healthy"] is healthy
    assert seen[0] == looks


def test_no_time_is_given_where_time_does_not_help(node: HealthNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_health.time, "sleep", lambda _seconds: pytest.fail("it waits"))
    node.unit("containerd.service", ActiveState="inactive")
    node.crash("kubelet.service", "")
    assert run(patience=1000)["steps"] == ["containerd"]
