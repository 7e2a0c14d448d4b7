# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.modules import node_rejoin, node_rejoin_host
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

WAY = {"endpoint": "10.0.0.1:6443", "pins": ["sha256:aa"], "token": "abcdef.0123456789abcdef"}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine."""
    monkeypatch.setattr(node_rejoin_host, "ROOT", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": "stop"}, "step=stop needs operation"),
        ({"step": "stop", "operation": "op"}, "step=stop needs node"),
        ({"step": "reset", "operation": "op"}, "step=reset needs node"),
        ({"step": "join", "way": WAY}, "step=join needs node"),
        ({"step": "join", "node": "w"}, "way"),
        ({"step": "join", "node": "w", "way": {"token": "x"}}, "endpoint"),
        ({"step": "leap"}, "must be one of"),
    ],
)
def test_what_is_missing_is_named(host: Path, options: dict[str, Any], said: str) -> None:
    answer = call(node_rejoin_host.main, **options)
    assert answer["failed"] and said in answer["msg"]


@pytest.mark.parametrize(
    "options",
    [
        {"step": "stop", "operation": "op", "node": "w"},
        {"step": "reset", "operation": "op", "node": "w"},
        {"step": "join", "node": "w", "way": WAY},
        {"step": "start", "units": ["a.service"]},
    ],
)
def test_check_mode_touches_nothing(host: Path, options: dict[str, Any]) -> None:
    answer = call(node_rejoin_host.main, check_mode=True, **options)
    assert answer["changed"]
    assert list(host.iterdir()) == []


def test_an_empty_host_is_looked_at_and_says_what_is_missing(host: Path) -> None:
    (host / "proc").mkdir()
    answer = call(node_rejoin_host.main, step="look", node="w")
    assert answer.get("changed") is False, answer
    assert not answer["host"]["kubelet_conf"] and answer["files"] == []
    assert "kubeadm is not installed" in answer["host"]["problems"][0]
    assert [path.name for path in host.iterdir()] == ["proc"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": "begin", "node": "w"}, "host_facts"),
        ({"step": "drain", "node": "w"}, "holder"),
        ({"step": "begin", "node": "../w", "host_facts": {"node": "w"}}, "no node can be called"),
        ({"step": "begin", "node": "w", "host_facts": {"node": 5}}, "host_facts must be"),
    ],
)
def test_what_is_missing_for_the_cluster_is_named(options: dict[str, Any], said: str) -> None:
    answer = call(node_rejoin.main, kubeconfig={"clusters": []}, **options)
    assert answer["failed"] and said in answer["msg"]
