# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the role takes off the Node when GPUs are no longer offered, by ansible-playbook and a real API server, with the
rights of the node's kubelet."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.role_play import RolePlay

MEMORY, COUNT, CORE, CARDS = "doslab.io/gpu-memory", "doslab.io/gpu-count", "doslab.io/gpu-core", "doslab.io/cards"
NOTED = [MEMORY, COUNT, CORE, "mock.com/gpu"]


class MadeNode:
    """A Node with what the kubelet, the agent and a person wrote on it."""

    def __init__(self, server: ApiServer) -> None:
        self.name = f"node-{uuid.uuid4().hex[:8]}"
        self.path = f"/api/v1/nodes/{self.name}"
        self.client = KubeClient(find_access({"kubeconfig": server.kubeconfig()}))
        metadata = {"name": self.name, "labels": {"test": "uncount"}}  # of an object without any, no writers are kept
        self.client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        self.write("kubelet", {"cpu": "4", MEMORY: "0"})
        self.write("colocation-agent", {COUNT: "4", CORE: "400"})
        self.write("kubectl-patch", {"mock.com/gpu": "3"})

    def write(self, manager: str, amounts: dict[str, str]) -> None:
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        self.client.patch(f"{self.path}/status", status, field_manager=manager)

    def has(self) -> set[str]:
        return {name for name in self.client.get(self.path)["status"]["capacity"] if "/" in name}


@pytest.fixture
def node(api_server: ApiServer) -> Iterator[MadeNode]:
    made = MadeNode(api_server)
    yield made
    made.client.delete(made.path)
    made.client.close()


@pytest.fixture
def uncount(api_server: ApiServer, node: MadeNode, tmp_path: Path) -> RolePlay:
    kubeconfig = tmp_path / "kubelet.conf"
    kubeconfig.write_text(json.dumps(api_server.kubeconfig(f"system:node:{node.name}", "system:nodes")))
    known: dict[str, Any] = {
        "entry": "uncount",
        "credentials_node_name": node.name,
        "device_plugin_state_dir": str(tmp_path / "state"),
        "device_plugin_kubelet_kubeconfig": str(kubeconfig),
        "preflight_gpu_mib": [81920],
    }
    return RolePlay(tmp_path, "device_plugin", known)


def test_the_counts_go_when_no_gpus_are_offered(node: MadeNode, uncount: RolePlay) -> None:
    said = {"device_plugin_resources": {"memory": {"a/b": {}}}, "__device_plugin_service": {"resources": NOTED}}
    status, changed, output = uncount("--check", **said)
    assert (status, changed) == (0, 1), output
    assert COUNT in node.has()
    status, changed, output = uncount(**said)
    assert (status, changed) == (0, 1), output
    assert node.has() == {MEMORY, "mock.com/gpu"}
    status, changed, output = uncount(**said)
    assert (status, changed) == (0, 0), output


def test_one_with_another_name_goes_and_the_new_one_stays(node: MadeNode, uncount: RolePlay) -> None:
    node.write("colocation-agent", {CARDS: "4"})
    gpu = {"gpu": {MEMORY: {"count_resource": CARDS}}}
    status, _changed, output = uncount(
        device_plugin_resources=gpu, __device_plugin_service={"resources": [*NOTED, CARDS]}
    )
    assert status == 0, output
    assert node.has() == {MEMORY, "mock.com/gpu", CORE, CARDS}


def test_the_counts_go_with_the_agent(node: MadeNode, uncount: RolePlay) -> None:
    status, _changed, output = uncount(device_plugin_resources={}, __device_plugin_removed={"resources": NOTED})
    assert status == 0, output
    assert node.has() == {MEMORY, "mock.com/gpu"}
