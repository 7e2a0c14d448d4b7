# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A cluster's API that keeps objects by their paths and applies by replacing: enough for what decides about objects.

Who plays the controllers is a function of the test's, called when somebody looks. What a real API server makes of the
same is in tests/contract/scheduler.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient

RESOURCES = {
    "/api/v1": {"Secret": "secrets", "ConfigMap": "configmaps", "Pod": "pods", "ServiceAccount": "serviceaccounts"},
    "/apis/apps/v1": {"Deployment": "deployments", "DaemonSet": "daemonsets"},
    "/apis/rbac.authorization.k8s.io/v1": {"ClusterRole": "clusterroles"},
    "/apis/coordination.k8s.io/v1": {"Lease": "leases"},
}
CLUSTER_WIDE = ("ClusterRole",)


class KubeApiDouble(KubeClient):
    """Every write is on record."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.written: list[str] = []
        self.controllers: Callable[[dict[str, dict[str, Any]]], None] = lambda objects: None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        if path in RESOURCES:
            named = [{"name": n, "kind": k, "namespaced": k not in CLUSTER_WIDE} for k, n in RESOURCES[path].items()]
            return {"resources": [*named, {"name": "pods/log", "kind": "Pod", "namespaced": True}]}
        self.controllers(self.objects)
        if path not in self.objects:
            raise ApiError(f"GET {path}: 404", 404)
        return copy.deepcopy(self.objects[path])

    def items(self, path: str, label_selector: str = "", field_selector: str = "", page: int = 500) -> Any:
        self.controllers(self.objects)
        wanted = dict(term.split("=") for term in label_selector.split(",") if term)
        group, dummy, plural = path.rpartition("/")
        return [
            copy.deepcopy(one)
            for at, one in self.objects.items()
            if (at.startswith(path + "/") or (at.startswith(group + "/namespaces/") and f"/{plural}/" in at))
            and wanted.items() <= (one["metadata"].get("labels") or {}).items()
        ]

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return self.logs[(query or {})["container"]]

    def apply(self, path: str, body: Any, field_manager: str, *, dry_run: bool = False) -> Any:
        standing = self.objects.get(path)
        metadata = (standing or {}).get("metadata", {})
        made = {**(standing or {}), **copy.deepcopy(body)}
        made["metadata"]["uid"] = metadata.get("uid", path)
        made["metadata"]["generation"] = int(metadata.get("generation", 0)) + (
            json.dumps((standing or {}).get("spec")) != json.dumps(made.get("spec"))
        )
        if not dry_run:
            self.written.append(f"APPLY {path}")
            self.objects[path] = made
        return copy.deepcopy(made)

    def delete(self, path: str, body: Any = None, *, dry_run: bool = False) -> Any:
        if path not in self.objects:
            raise ApiError(f"DELETE {path}: 404", 404)
        self.written.append(f"DELETE {path}")
        del self.objects[path]
        return {}
