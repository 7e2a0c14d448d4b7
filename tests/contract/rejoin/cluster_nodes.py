# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Nodes and pods of one test in a real API server, where no controller is at work."""

from __future__ import annotations

import uuid
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.credentials_made import AUTHORITY, coded
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import HostDouble, furnish


class Cluster:
    """The API of one test, with nodes of its own."""

    def __init__(self, server: ApiServer) -> None:
        self.kubeconfig = server.kubeconfig()
        self.client = KubeClient(find_access({"kubeconfig": self.kubeconfig}))
        self.name = f"rejoin-{uuid.uuid4().hex[:8]}"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        self.client.post("/api/v1/namespaces", namespace)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.client.post(f"/api/v1/namespaces/{self.name}/serviceaccounts", account)

    def host(self, name: str = "w", **spec: Any) -> HostDouble:
        node = f"{self.name}-{name}"
        furnish(self.client, node, coded(AUTHORITY), **spec)
        return HostDouble(self.client, node)

    def pod(self, node: str, name: str, owner: str = "", **metadata: Any) -> str:
        """A pod that runs on a node; its path."""
        owners = [
            {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": str(uuid.uuid4()), "controller": True}
        ]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": owners if owner else [], **metadata},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,  # no kubelet is there to confirm its end
                "containers": [{"name": "main", "image": "none"}],
            },
        }
        pods = f"/api/v1/namespaces/{self.name}/pods"
        self.client.post(pods, body)
        ready = [{"type": "Ready", "status": "True"}]
        self.client.patch(f"{pods}/{name}/status", {"status": {"phase": "Running", "conditions": ready}})
        return f"{pods}/{name}"

    def pods(self) -> list[str]:
        found = self.client.items(f"/api/v1/namespaces/{self.name}/pods")
        return sorted(one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"])

    def close(self) -> None:
        for node in self.client.items("/api/v1/nodes", label_selector="rejoin-test=yes"):
            self.client.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        for pod in self.client.items(f"/api/v1/namespaces/{self.name}/pods"):
            path = f"/api/v1/namespaces/{self.name}/pods/{pod['metadata']['name']}"
            self.client.delete(path, {"gracePeriodSeconds": 0})
        self.client.close()
