# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The module node_facts: what it hands to the readers, and what it hands back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import NodeFacts, from_json
from ansible_collections.colocation.kubernetes.plugins.modules import node_facts
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import PreflightNode


class Call:
    """Runs the module with the readers at a tree of our own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, output: pytest.CaptureFixture[str]) -> None:
        self.node = PreflightNode(root)
        self.output = output
        self.asked: list[tuple[Any, ...]] = []
        self.limits: set[float] = set()
        read_worker, read_node = node_facts.read_worker, node_facts.read_node

        def worker(_root: str, run: Any, *options: Any) -> Any:
            self.asked.append(options)
            return read_worker(str(root), run, *options, ask=self.node.ask)

        def run_for(command: list[str], seconds: float) -> tuple[int, str, str]:
            self.limits.add(seconds)
            return self.node.run(command)

        monkeypatch.setattr(node_facts, "read_worker", worker)
        monkeypatch.setattr(node_facts, "read_node", lambda _root, *rest: read_node(str(root), *rest))
        monkeypatch.setattr(node_facts, "run_for", run_for)

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        with patch_module_args(arguments), pytest.raises(SystemExit):
            node_facts.main()
        result: dict[str, Any] = json.loads(self.output.readouterr().out)
        return result


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(tmp_path, monkeypatch, capsys)


def test_a_worker(call: Call) -> None:
    result = call(disks=["/var", "/opt"], api_timeout=3, command_timeout=7, containerd_config="/etc/c.toml")
    assert result["changed"] is False
    facts = from_json(NodeFacts, result["node"])
    assert facts.worker is not None
    assert facts.worker.kubelet.version == "1.36.3"
    assert [disk.path for disk in facts.worker.disks] == ["/var", "/opt"]
    assert (call.asked, call.limits) == ([(["/var", "/opt"], 3.0, "/etc/c.toml")], {7.0})


def test_a_control_plane_host_is_asked_less(call: Call) -> None:
    result = call(worker=False)
    assert from_json(NodeFacts, result["node"]).worker is None
    assert call.asked == []


def test_what_of_ours_stands(call: Call) -> None:
    state_dir = call.node.root / "var/lib/colocation"
    assert call(worker=False)["node"]["owners"] == []
    Ledger(str(state_dir), "node_prep").note("unit", "kubelet.service", None, {"active": True})
    call.node.write("var/lib/colocation/agents/cri_proxy.json", "half")
    call.node.write("var/lib/colocation/agents/cri_proxy.previous.unit", "")
    assert call(worker=False)["node"]["owners"] == ["cri_proxy", "node_prep"]
    assert call(worker=False, state_dirs=["/srv"])["node"]["owners"] == []
    call.node.write("var/lib/colocation/ledger/broken.json", "{")
    assert call(worker=False)["node"]["owners"] is None


def test_check_mode_is_the_same(call: Call) -> None:
    real, check = call(), call(_ansible_check_mode=True)
    for result in (real, check):
        del result["node"]["clock"]["now"]
    assert real == check


def test_a_state_that_cannot_be_read_is_a_failure_with_words(call: Call) -> None:
    call.node.write("proc/swaps", "Filename Type Size Used Priority\nnonsense\n")
    result = call()
    assert result["failed"] is True
    assert result["msg"].startswith("this host's state can't be read: /proc/swaps line 2")
