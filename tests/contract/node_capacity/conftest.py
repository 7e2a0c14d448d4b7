# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A cluster of Node objects, made for each test and removed after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import JSON_PATCH, KubeClient, pointer
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.modules import node_capacity, node_capacity_info
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.node_kubelet_double import NodeKubeletDouble
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


class Nodes:
    """The nodes of a test: made, written as somebody else, read, asked through the modules."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.kubeconfig = server.kubeconfig()
        self.client = KubeClient(find_access({"kubeconfig": self.kubeconfig}))
        self.label = f"test-{uuid.uuid4().hex[:8]}"
        self._doubles: list[NodeKubeletDouble] = []

    def make(self, *names: str) -> list[str]:
        """Nodes with these names behind a prefix of the test's own."""
        made = [f"{self.label}-{name}" for name in names]
        for name in made:
            self.make_named(name)
        return made

    def make_named(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "labels": {"test": self.label, **labels}}
        self.client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        status = {"capacity": {"cpu": "4", "pods": "110"}, "allocatable": {"cpu": "4", "pods": "110"}}
        self.client.patch(f"/api/v1/nodes/{name}/status", {"status": status}, field_manager="kubelet")

    def kubelet(self, node: str) -> NodeKubeletDouble:
        self._doubles.append(NodeKubeletDouble(self.client, node))
        return self._doubles[-1]

    def write(self, node: str, resource: str, amount: str, manager: str = "kubectl-patch") -> None:
        """Another writer sets a resource."""
        operation = {"op": "add", "path": pointer("status", "capacity", resource), "value": amount}
        self.client.patch(f"/api/v1/nodes/{node}/status", [operation], JSON_PATCH, field_manager=manager)

    def status(self, node: str, part: str = "capacity") -> dict[str, str]:
        """The extended resources of a node."""
        found = self.client.get(f"/api/v1/nodes/{node}")["status"].get(part) or {}
        return {name: amount for name, amount in found.items() if "/" in name}

    def version(self, node: str) -> str:
        version: str = self.client.get(f"/api/v1/nodes/{node}")["metadata"]["resourceVersion"]
        return version

    def pod(self, node: str, name: str, resource: str, amount: str, phase: str = "Running") -> None:
        """A pod that holds something."""
        limits = {"limits": {resource: amount}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{self.label}-{name}"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none", "resources": limits}]},
        }
        self.client.post("/api/v1/namespaces/default/pods", body)
        path = f"/api/v1/namespaces/default/pods/{self.label}-{name}/status"
        self.client.patch(path, {"status": {"phase": phase}})

    def set(self, **options: Any) -> dict[str, Any]:
        """node_capacity as the administrator, unless a kubeconfig says otherwise."""
        return call(node_capacity.main, **{"kubeconfig": self.kubeconfig, **options})

    def info(self, **options: Any) -> dict[str, Any]:
        return call(node_capacity_info.main, **{"kubeconfig": self.kubeconfig, **options})

    def close(self) -> None:
        for double in self._doubles:
            double.stop()
        now = {"gracePeriodSeconds": 0}
        for pod in self.client.items("/api/v1/namespaces/default/pods"):
            self.client.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", now)
        for node in self.client.items("/api/v1/nodes", label_selector=f"test={self.label}"):
            self.client.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        self.client.close()


@pytest.fixture(scope="session")
def pod_account(api_server: ApiServer) -> None:
    """Pods need the service account that a controller would make."""
    client = KubeClient(find_access({"kubeconfig": api_server.kubeconfig()}))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    with client:
        client.post("/api/v1/namespaces/default/serviceaccounts", account)


@pytest.fixture
def nodes(api_server: ApiServer, pod_account: None) -> Iterator[Nodes]:
    found = Nodes(api_server)
    yield found
    found.close()


@pytest.fixture
def user(api_server: ApiServer) -> Iterator[Callable[..., dict[str, Any]]]:
    """A kubeconfig of a new user with these rules of RBAC."""
    admin = KubeClient(find_access({"kubeconfig": api_server.kubeconfig()}))
    base = "/apis/rbac.authorization.k8s.io/v1"
    made: list[str] = []

    def make(*rules: tuple[str, str]) -> dict[str, Any]:
        name = f"user-{uuid.uuid4().hex[:8]}"
        spoken = [{"apiGroups": [""], "verbs": verbs.split(","), "resources": [what]} for verbs, what in rules]
        metadata = {"metadata": {"name": name}}
        admin.post(f"{base}/clusterroles", {**metadata, "rules": spoken})
        made.append(f"{base}/clusterroles/{name}")
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        admin.post(f"{base}/clusterrolebindings", {**metadata, "roleRef": role, "subjects": [subject]})
        made.append(f"{base}/clusterrolebindings/{name}")
        return api_server.kubeconfig(name, "testers")

    yield make
    for path in made:
        admin.delete(path)
    admin.close()
