# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Nodes without kubelets and pods without containers, made and moved as the control plane's parts would."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


def until(what: str, holds: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class SomeCluster:
    """What is in an API server."""

    def __init__(self, server: ApiServer) -> None:
        self.client = KubeClient(find_access({"kubeconfig": server.kubeconfig()}))
        try:
            self.client.post(ACCOUNT, {"metadata": {"name": "default"}})  # there is no controller that makes it
        except ApiError as problem:
            assert problem.status == 409, problem

    def node(self, name: str, cpu: str = "10", memory: str = "100Gi") -> None:
        self.client.post("/api/v1/nodes", {"metadata": {"name": name}})
        size = {"cpu": cpu, "memory": memory, "pods": "110"}
        self._status(f"/api/v1/nodes/{name}", {"capacity": size, "allocatable": size})

    def pod(self, name: str, where: str = "", memory: str = "10Gi", owner: str = "") -> str:
        """A pod, bound as a scheduler binds it; its UID."""
        metadata: dict[str, Any] = {"name": name}
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
            metadata["ownerReferences"] = [reference]
        container = {"name": "c", "image": "none", "resources": {"requests": {"memory": memory}}}
        spec = {"containers": [container], "schedulerName": "mem-real-usage-scheduler"}
        made = self.client.post(PODS, {"metadata": metadata, "spec": spec})
        if where:
            self.bind(name, where)
        return str(made["metadata"]["uid"])

    def bind(self, name: str, where: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": where}
        self.client.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})

    def phase(self, name: str, phase: str) -> None:
        """As the kubelet reports it."""
        self._status(f"{PODS}/{name}", {"phase": phase})

    def evict(self, name: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        self.client.post(f"{PODS}/{name}/eviction", eviction | {"deleteOptions": {"gracePeriodSeconds": 0}})

    def delete(self, path: str) -> None:
        self.client.delete(path, {"gracePeriodSeconds": 0})

    def clear(self) -> None:
        for pod in self.client.get(PODS)["items"]:
            self.delete(f"{PODS}/{pod['metadata']['name']}")
        for node in self.client.get("/api/v1/nodes")["items"]:
            self.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        self.client.close()

    def _status(self, path: str, status: Mapping[str, Any]) -> None:
        self.client.patch(f"{path}/status", {"status": status})
