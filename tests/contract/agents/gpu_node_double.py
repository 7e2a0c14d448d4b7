# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a kubelet's pods on a node with GPUs: takes them from a real API server and has the plugin serve them.

It does what `devicemanager` of 1.36 does with a pod: container by container it asks for the preferred devices, has them
allocated, and writes the checkpoint; an error fails the pod. What runs is only what the pod's status says.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import RESOURCE
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import (
    Given,
    PodResourcesDouble,
)
from colocation.common.kube_api import MERGE_PATCH, KubeApi
from colocation.device_plugin.kubelet_state import CHECKPOINT


@dataclass
class Served:
    """A pod that the kubelet took: the truth about it."""

    name: str
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by container
    environment: dict[str, Mapping[str, str]] = field(default_factory=dict)


class GpuNodeDouble:
    """The pods of one namespace on one node; `sync` does what there is to do."""

    def __init__(self, kubelet: KubeletDouble, place: Path, api: KubeApi, node: str, namespace: str) -> None:
        self.kubelet = kubelet
        self.resources = PodResourcesDouble(place / "pods.sock", place / "k" / CHECKPOINT)
        self.served: dict[str, Served] = {}
        self.refused: dict[str, str] = {}  # by name: what the plugin said, of those that it could not serve
        self._api, self._node, self._namespace = api, node, namespace

    def pods(self) -> dict[str, Any]:
        """Those of the node, by UID."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        items = self._api.get(path, fieldSelector=f"spec.nodeName={self._node}")["items"]
        return {item["metadata"]["uid"]: item for item in items}

    def sync(self, chance: random.Random) -> None:
        """Forget the pods that went, serve those that came: those of a moment in any order."""
        pods = self.pods()
        self.served = {uid: served for uid, served in self.served.items() if uid in pods}
        self._write()
        waiting = [uid for uid, pod in pods.items() if uid not in self.served and pod["status"]["phase"] == "Pending"]
        chance.shuffle(waiting)
        for uid in waiting:
            self._admit(uid, pods[uid])

    def offered(self) -> int:
        """Healthy devices of a plugin that is there."""
        plugins = self.kubelet.watched(RESOURCE)
        return sum(health == "Healthy" for _id, health in plugins[-1].lists[-1]) if plugins else 0

    def free(self) -> list[str]:
        """Healthy devices that nobody holds."""
        taken = {id for served in self.served.values() for ids in served.ids.values() for id in ids}
        (plugin,) = self.kubelet.watched(RESOURCE)
        return [id for id, health in plugin.lists[-1] if health == "Healthy" and id not in taken]

    def _admit(self, uid: str, pod: Mapping[str, Any]) -> None:
        served = self.served[uid] = Served(pod["metadata"]["name"])
        if refused := self._serve(served, pod):
            del self.served[uid]
            self.refused[served.name] = refused
            self._write()
            self._say(served.name, {"phase": "Failed", "reason": "UnexpectedAdmissionError"})
        else:
            self._say(served.name, {"phase": "Running"})

    def _serve(self, served: Served, pod: Mapping[str, Any]) -> str:
        """Have the plugin serve a pod's containers; why it did not."""
        (plugin,) = self.kubelet.watched(RESOURCE)
        first = pod["spec"].get("initContainers") or []
        reusable: list[str] = []
        try:
            for container in (*first, *pod["spec"]["containers"]):
                size = int(container["resources"]["limits"][RESOURCE])
                ids = reusable[:size]
                if len(ids) < size:
                    ids = plugin.prefer([*self.free(), *ids], ids, size)
                reusable = ids if container in first else reusable[size:]
                (answer,) = plugin.allocate(ids).container_responses
                served.ids[container["name"]] = tuple(ids)
                served.environment[container["name"]] = dict(answer.envs)
                self._write()
        except grpc.RpcError as problem:
            return str(problem)
        return ""

    def _say(self, name: str, status: Mapping[str, str]) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}/status"
        self._api.patch(path, {"status": dict(status)}, MERGE_PATCH)

    def _write(self) -> None:
        self.resources.given = [
            Given(uid, self._namespace, served.name, container, RESOURCE, ids)
            for uid, served in self.served.items()
            for container, ids in served.ids.items()
        ]
        self.resources.write()
