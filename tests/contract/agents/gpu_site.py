# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node with four GPUs of 80 GiB and the plugin on it: the plugin's process and the API server are real, the GPUs, the
kubelet and what runs in pods are doubles."""

from __future__ import annotations

import json
import uuid as uuids_of_pods
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.device_manager import DeviceManager, ManagedNode
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_node_double import GpuNodeDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import RESOURCE, UNIT, UNITS, UUIDS
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from colocation.common.kube_api import KubeApi, kubeconfig
from colocation.common.retry import Backoff


class GpuSite:
    """A node whose kubelet is a double, with the plugin on it, and the API server where its pods are."""

    def __init__(
        self,
        server: ApiServer,
        place: Path,
        kubelet: KubeletDouble | DeviceManager,
        start: Callable[[str], AgentProcess],
    ) -> None:
        self.server, self.place = server, place
        self.node = f"gpus-{uuids_of_pods.uuid4().hex[:8]}"
        self.space = f"space-of-{self.node}"
        self.admin = self._api("admin")
        self.api = self._api(f"system:node:{self.node}", "system:nodes")
        node = ManagedNode if isinstance(kubelet, DeviceManager) else GpuNodeDouble
        self.pods: GpuNodeDouble = node(kubelet, place, self.api, self.node, self.space)  # type: ignore[arg-type]
        self._start = start
        self._made = 0
        self.describe()

    def _api(self, name: str, *groups: str) -> KubeApi:
        file = self.place / f"{name.partition(':')[0]}.json"
        file.write_text(json.dumps(self.server.kubeconfig(name, *groups)))
        return KubeApi(kubeconfig(str(file)), 10, Backoff(tries=3))

    @contextmanager
    def prepared(self) -> Iterator[GpuSite]:
        """In the cluster, and serving the kubelet's PodResources, for the time of the block."""
        self.prepare()
        try:
            yield self
        finally:
            self.pods.resources.stop()

    def prepare(self) -> None:
        self.admin.post("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": self.node}})
        self.admin.patch(f"/api/v1/nodes/{self.node}", {"spec": {"taints": None}}, "application/merge-patch+json")
        self.admin.post(
            "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": self.space}}
        )
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}
        self.admin.post(f"/api/v1/namespaces/{self.space}/serviceaccounts", account)
        self.pods.resources.start()

    def describe(self, count: int = 4, mib: int = 81920, **health: str) -> None:
        """Change the GPUs; health by the number of the GPU, such as `gpu1="XID 79"`."""
        gpus = [
            {
                "uuid": uuid,
                "memoryMiB": mib,
                "model": "H100",
                "numa": n // 2,
                "health": health.get(f"gpu{n}", "healthy"),
            }
            for n, uuid in enumerate(UUIDS[:count])
        ]
        scratch = self.place / "gpus.new"
        scratch.write_text(json.dumps({"gpus": gpus}))
        scratch.replace(self.place / "gpus.yaml")

    def start(self, **settings: Any) -> AgentProcess:
        (self.place / "notify").unlink(missing_ok=True)
        agent = self._start(self._config(settings))
        until("it is up", lambda: agent.notified("READY=1"))
        return agent

    def reload(self, agent: AgentProcess, **settings: Any) -> None:
        agent.configure(f"kubelet_dir: {self.place}/k\n{self._config(settings)}")
        agent.reload()

    def _config(self, settings: dict[str, Any]) -> str:
        gpu = {"unit_mib": UNIT, "poll_seconds": 0.2, "double_file": f"{self.place}/gpus.yaml"} | settings
        config = {
            "pod_resources_socket": str(self.place / "pods.sock"),
            "cgroup_root": str(self.place / "cgroup"),
            "refresh_seconds": 0.5,
            "retry_seconds": 0.2,
            "kubernetes": {"kubeconfig": str(self.place / "system.json"), "node": self.node},
            "gpu": {RESOURCE: gpu},
        }
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())

    def until_offered(self) -> None:
        until("all units are on offer", lambda: self.pods.offered() == 4 * UNITS)

    def make(self, *sizes: int, init: int = 0, bound: bool = True, notes: dict[str, str] | None = None) -> str:
        """A pod with containers of so many units, one before them if that has any."""
        self._made += 1
        name = f"pod-{self._made}"

        def container(name: str, size: int) -> dict[str, Any]:
            return {"name": name, "image": "none", "resources": {"limits": {RESOURCE: str(size)}}}

        containers = [container(f"c{n}", size) for n, size in enumerate(sizes)]
        spec: dict[str, Any] = {"containers": containers, "terminationGracePeriodSeconds": 0}
        spec |= {"initContainers": [container("i0", init)]} if init else {}
        if bound:
            spec["nodeName"] = self.node
        metadata = {"name": name, "annotations": notes or {}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.admin.post(f"/api/v1/namespaces/{self.space}/pods", body)
        return name

    def delete(self, names: list[str]) -> None:
        if names:
            self.server.kubectl("-n", self.space, "delete", "pod", "--grace-period=0", "--force", "--wait=true", *names)

    def node_status(self, part: str) -> dict[str, str]:
        found: dict[str, str] = self.admin.get(f"/api/v1/nodes/{self.node}")["status"].get(part) or {}
        return found

    def events(self) -> list[tuple[str, str]]:
        items = [
            item
            for space in (self.space, "default")
            for item in self.admin.get(f"/api/v1/namespaces/{space}/events")["items"]
        ]
        return [(item["involvedObject"]["name"], item["reason"]) for item in items]
