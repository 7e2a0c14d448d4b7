# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node of which only its object in the API is real, and a kubelet that runs its pods as processes of this machine."""

from __future__ import annotations

import threading
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.pod_double import PodDouble

LOOK_EVERY = 0.3


def make_node(
    api: KubeClient, name: str, cpu: str = "16", memory: str = "64Gi", labels: dict[str, str] | None = None
) -> None:
    """A Ready node, as far as a scheduler can tell; the taint that the API server gives to new ones is taken away."""
    resources = {"cpu": cpu, "memory": memory, "pods": "200"}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [condition]},
    }
    api.post("/api/v1/nodes", node)
    api.patch(api_path("api", "v1", "nodes", name), {"spec": {"taints": None}}, MERGE_PATCH)


class NodeDouble:
    """Runs what is bound to its node, until it is closed."""

    def __init__(self, server: ApiServer, api: KubeClient, name: str, place: Path, ports: list[int]) -> None:
        self.name = name
        self._server = server
        self._api = api
        self._place = place
        self._ports = ports
        self.pods: dict[str, PodDouble] = {}
        self.failed = ""
        self._ended = threading.Event()
        make_node(api, name)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for pod in self.pods.values():
            pod.stop()
        self._api.remove(api_path("api", "v1", "nodes", self.name))

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            try:
                self._round()
            except ApiError as problem:  # a pod that goes while it is looked at
                self.failed = str(problem)

    def _round(self) -> None:
        bound = self._api.items("/api/v1/pods", field_selector=f"spec.nodeName={self.name}")
        wanted = {pod["metadata"]["uid"]: pod for pod in bound}
        for uid in set(self.pods) - set(wanted):
            self.pods.pop(uid).stop()
        for uid, pod in wanted.items():
            metadata = pod["metadata"]
            path = api_path("api", "v1", "namespaces", metadata["namespace"], "pods", metadata["name"])
            if "deletionTimestamp" in metadata:
                if uid in self.pods:
                    self.pods.pop(uid).stop()
                self._api.remove(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
                continue
            if uid not in self.pods:
                place = self._place / metadata["name"]
                place.mkdir(parents=True, exist_ok=True)
                self.pods[uid] = PodDouble(self._server, self._api, pod, place, self._ports)
            status = self.pods[uid].look()
            if status != pod.get("status"):
                self._api.patch(path + "/status", {"status": status}, STRATEGIC_PATCH)
