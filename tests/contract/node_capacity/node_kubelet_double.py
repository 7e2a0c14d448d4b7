# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a kubelet's node status, as far as extended resources go, against a real API server.

It does what nodestatus/setters.go and devicemanager/manager.go of Kubernetes 1.36 do, faster: each sync writes the
resources of its device plugins, derives allocatable from capacity, and drops from allocatable what capacity lacks.
"""

from __future__ import annotations

import threading
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._resource_name import is_extended

SYNC = 0.2
GRACE = 2.0  # for endpointStopGracePeriod, five minutes in reality


class NodeKubeletDouble:
    """Syncs one node until `stop`."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._client = client
        self._path = f"/api/v1/nodes/{node}/status"
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._plugins: dict[str, tuple[int, int]] = {}  # healthy, all
        self._stopping: dict[str, float] = {}  # seconds left
        self._gone: list[str] = []
        self.syncs = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def plugin(self, resource: str, healthy: int, unhealthy: int = 0) -> None:
        """A device plugin registers, or sends another list."""
        with self._lock:
            self._plugins[resource] = (healthy, healthy + unhealthy)
            self._stopping.pop(resource, None)

    def plugin_ends(self, resource: str) -> None:
        """Its stream ends: no device is healthy any more, and five minutes begin."""
        with self._lock:
            self._plugins[resource] = (0, self._plugins[resource][1])
            self._stopping[resource] = GRACE

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def sync(self) -> None:
        with self._lock:
            for resource in list(self._stopping):
                self._stopping[resource] -= SYNC
                if self._stopping[resource] <= 0:
                    del self._stopping[resource], self._plugins[resource]
                    self._gone.append(resource)
            plugins, gone = dict(self._plugins), self._gone
            self._gone = []
        node = self._client.get(self._path)
        old = node["status"]
        capacity = dict(old.get("capacity") or {})
        capacity |= {name: str(count) for name, (_healthy, count) in plugins.items()} | dict.fromkeys(gone, "0")
        allocatable: dict[str, Any] = dict(capacity) | {name: str(healthy) for name, (healthy, _all) in plugins.items()}
        changes: dict[str, Any] = {"capacity": _changed(old.get("capacity"), capacity)}
        left = {name: None for name in old.get("allocatable") or {} if name not in capacity and is_extended(name)}
        changes["allocatable"] = _changed(old.get("allocatable"), allocatable) | left
        if self.syncs == 0 or any(changes.values()):
            heartbeat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
            self._client.patch(
                self._path, {"status": {**changes, "conditions": heartbeat}}, field_manager="kubelet", repeat=True
            )
        self.syncs += 1

    def _run(self) -> None:
        while not self._ended.wait(SYNC):
            self.sync()


def _changed(old: dict[str, str] | None, new: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in new.items() if (old or {}).get(name) != value}
