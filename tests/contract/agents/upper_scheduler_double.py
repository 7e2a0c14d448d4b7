# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of an upper scheduler that chooses GPUs, as those of the seed's family: it annotates a pod, then binds it.

It can die between the two; when it comes again it binds what it finds, sometimes with a new choice, sometimes not.
It chooses by chance among the GPUs with room: what came of a plan that nobody heeds would not look like it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from colocation.common.kube_api import MERGE_PATCH, KubeApi

UUID, ASSIGNED, ASSUME_TIME = "DOSLAB_IO_GPU_UUID", "DOSLAB_IO_GPU_ASSIGNED", "DOSLAB_IO_GPU_ASSUME_TIME"


class UpperScheduler:
    """For one node and its GPUs of equal size."""

    def __init__(
        self, api: KubeApi, node: str, namespace: str, resource: str, uuids: Sequence[str], units: int, seed: int
    ) -> None:
        self._api, self._node, self._namespace, self._resource = api, node, namespace, resource
        self._uuids, self._units = uuids, units
        self._chance = random.Random(seed)
        self.died = 0
        self.plan: dict[str, str] = {}  # of pods that were bound, by name

    def run(self, dies: float) -> None:
        """Place all pods that wait, and die with that probability before each binding."""
        pods = self._api.get(f"/api/v1/namespaces/{self._namespace}/pods")["items"]
        booked = self._booked(pods)
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        self._chance.shuffle(waiting)
        for pod in waiting:
            name, notes = pod["metadata"]["name"], pod["metadata"].get("annotations") or {}
            if UUID not in notes or self._chance.random() < 0.5:
                if UUID in notes:
                    booked[notes[UUID]] -= self._size(pod)
                self.plan[name] = self._choose(booked, self._size(pod))
                self._annotate(name, self.plan[name])
            if self._chance.random() < dies:
                self.died += 1
                continue
            self.bind(name)

    def bind(self, name: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self._namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }
        self._api.post(f"/api/v1/namespaces/{self._namespace}/pods/{name}/binding", body)

    def _annotate(self, name: str, uuid: str) -> None:
        notes = {UUID: uuid, ASSIGNED: "false", ASSUME_TIME: str(time.time_ns())}
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        self._api.patch(path, {"metadata": {"annotations": notes}}, MERGE_PATCH)

    def _choose(self, booked: dict[str, int], size: int) -> str:
        """A GPU that has room by its books; any if none has."""
        room = [uuid for uuid in self._uuids if self._units - booked[uuid] >= size]
        chosen = self._chance.choice(room or self._uuids)
        booked[chosen] += size
        return chosen

    def _booked(self, pods: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        booked = dict.fromkeys(self._uuids, 0)
        for pod in pods:
            uuids = str((pod["metadata"].get("annotations") or {}).get(UUID, "")).split(",")
            if pod["status"]["phase"] in ("Pending", "Running"):
                for uuid in booked.keys() & uuids:  # of several, it can't know how much is of which
                    booked[uuid] += self._size(pod)
        return booked

    def _size(self, pod: Mapping[str, Any]) -> int:
        """What it holds: its containers have what an init container had."""
        first, others = (
            sum(int(one["resources"]["limits"][self._resource]) for one in pod["spec"].get(part) or ())
            for part in ("initContainers", "containers")
        )
        return max(first, others)
