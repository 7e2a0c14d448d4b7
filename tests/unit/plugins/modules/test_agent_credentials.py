# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The node's side of the credentials without an API server; with one: tests/contract/credentials."""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.modules import (
    agent_credentials,
    agent_credentials_info,
    agent_token,
    kubeconfig_read,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

DAY = 86400
NOW = time.time()


class Node:
    """A directory with a kubelet's kubeconfig; validate is off unless a test says otherwise."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.conf = directory / "kubelet.conf"
        self.pem = directory / "current.pem"
        self.pem.write_text(made.certificate("system:node:w1", NOW - DAY, NOW + 365 * DAY) + made.key())
        self.conf.write_text(made.kubeconfig({"client-certificate": str(self.pem), "client-key": str(self.pem)}))
        self.kubeconfig = directory / "state" / "credentials" / "kubeconfig"

    def __call__(
        self, module: ModuleType = agent_credentials, check_mode: bool = False, **params: Any
    ) -> dict[str, Any]:
        base: dict[str, Any] = {"kubelet_kubeconfig": str(self.conf), "state_dir": str(self.directory / "state")}
        if module is agent_credentials:
            base["validate"] = False
        return call(module.main, check_mode, **{**base, **params})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    (tmp_path / "root" / "proc").mkdir(parents=True)
    for module in (agent_credentials, agent_credentials_info):
        monkeypatch.setattr(module, "ROOT", str(tmp_path / "root"))
    return Node(tmp_path)


def test_the_kubelets_own(node: Node) -> None:
    told = node(check_mode=True)
    done = node()
    assert {key: done[key] for key in told if key != "invocation"} == {
        key: value for key, value in told.items() if key != "invocation"
    }
    assert (done["changed"], done["node"], done["user"]) == (True, "w1", "system:node:w1")
    assert done["days_left"] == pytest.approx(365, abs=0.2)
    assert not node()["changed"]


def test_another_server(node: Node) -> None:
    assert node(server="https://10.9.9.9:6443")["server"] == "https://10.9.9.9:6443"
    assert "https://10.9.9.9:6443" in node.kubeconfig.read_text()
    node.conf.write_text(made.kubeconfig({"token": made.token("u", NOW, NOW + 365 * DAY)}))
    assert "so its server can't be replaced" in node(server="https://10.9.9.9:6443")["msg"]


def test_minted_keeps_the_token_that_stands_there(node: Node) -> None:
    token = made.token("system:serviceaccount:kube-system:colocation-agent-w1", NOW, NOW + 90 * DAY)
    assert "needs a token, and none stands there" in node(source="minted")["msg"]
    assert node(source="minted", check_mode=True, token="")["changed"]
    assert node(source="minted", token=token)["changed"]
    assert not node(source="minted")["changed"]
    assert node(source="minted", check_mode=True, token="")["changed"]  # another would be minted
    assert node(source="minted", server="https://b")["changed"]
    assert token in node.kubeconfig.read_text()


def test_a_token_of_few_days_comes_with_a_warning(node: Node) -> None:
    done = node(source="minted", token=made.token("u", NOW, NOW + DAY))
    assert "gives tokens for 1.0 days only" in done["warnings"][0]


def test_what_ended_changes_nothing(node: Node) -> None:
    node()
    before = node.kubeconfig.read_text()
    failed = node(source="minted", token=made.token("u", NOW - 2 * DAY, NOW - DAY))
    assert "ended on" in failed["msg"]
    assert node.kubeconfig.read_text() == before


@pytest.mark.parametrize("source", ["admin", "file"])
def test_a_kubeconfig_is_needed(node: Node, source: str) -> None:
    assert f"source is {source} but all of the following are missing: kubeconfig" in node(source=source)["msg"]


def test_the_administrators_warns_though_it_is_not_tried(node: Node) -> None:
    pem = made.certificate("kubernetes-admin", NOW - DAY, NOW + 365 * DAY, group="system:masters")
    user: dict[str, object] = {
        "client-certificate-data": made.coded(pem),
        "client-key-data": made.coded(made.key()),
    }
    done = node(source="admin", kubeconfig=made.kubeconfig(user))
    assert "kubernetes-admin may do everything in the cluster" in done["warnings"][0]
    assert made.coded(made.key()) not in str(done)


def test_a_node_that_never_joined(node: Node) -> None:
    node.conf.unlink()
    assert f"the kubeconfig {node.conf} can't be read: No such file" in node()["msg"]
    node.conf.write_text(made.kubeconfig({"client-certificate": "gone.pem", "client-key": "gone.pem"}))
    assert "gone.pem can't be read" in node()["msg"]


def test_nobody_answers(node: Node) -> None:
    failed = node(validate=True, server="https://127.0.0.1:1", timeout=1)
    assert "What stood before stays." in failed["msg"]
    assert not node.kubeconfig.exists()


def test_info_never_fails(node: Node) -> None:
    def seen(**params: Any) -> dict[str, Any]:
        return node(agent_credentials_info, timeout=1, **params)

    assert (seen()["exists"], seen()["renew"], seen()["node"], seen()["account"]) == (False, True, "w1", None)
    node(server="https://127.0.0.1:1")
    found = seen()
    assert (found["source"], found["accepted"], found["renew"]) == ("kubelet", None, False)
    assert "127.0.0.1:1" in found["problem"]
    node.kubeconfig.write_text("nonsense")
    assert (seen()["exists"], seen()["source"]) == (True, "")
    assert "nonsense" not in seen()["problem"]


def test_a_token_is_not_made_in_check_mode(node: Node) -> None:
    made_up = call(agent_token.main, True, node="w1", kubeconfig="/nowhere")
    assert (made_up["changed"], "token" in made_up) == (True, False)
    assert "/nowhere" in call(agent_token.main, False, node="w1", kubeconfig="/nowhere")["msg"]


def test_a_kubeconfig_is_read_with_its_files(node: Node) -> None:
    read = call(kubeconfig_read.main, path=str(node.conf))["kubeconfig"]
    node.pem.unlink()
    assert node(source="file", kubeconfig=read)["changed"]
    assert "current.pem can't be read" in call(kubeconfig_read.main, path=str(node.conf))["msg"]
    assert "no context named 'other'" in call(kubeconfig_read.main, path=str(node.conf), context="other")["msg"]
