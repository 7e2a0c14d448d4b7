# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a role needs to know of a cluster before it puts something there: versions, addresses, nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path

IMAGES = "registry.k8s.io"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-(?:alpha|beta|rc)\.\d+)?")
_REPOSITORY = re.compile(r"^imageRepository:\s*[\"']?([^\s\"'#]+)", re.M)


class ClusterUnclear(Exception):
    """What the API says can't be made sense of."""


def look(api: KubeClient) -> dict[str, Any]:
    """All of it as a module's result."""
    said = str(api.get("/version").get("gitVersion"))
    version = _VERSION.match(said)
    if version is None:
        raise ClusterUnclear(f"the API server calls its version {said!r}, which is none")
    return {
        "version": ".".join(version.group(1, 2, 3)) + (version[4] or ""),
        "minor": int(version[2]),
        "image_repository": _images(api),
        "service_address": _service(api),
        "api_groups": sorted(group["name"] for group in api.get("/apis").get("groups") or []),
        "nodes": sorted((_node(one) for one in api.items("/api/v1/nodes")), key=lambda node: str(node["name"])),
    }


def _images(api: KubeClient) -> str:
    """Where kubeadm takes its images; the project's registry where it does not say, or nobody may read that."""
    try:
        found = api.find(api_path("api", "v1", "namespaces", "kube-system", "configmaps", "kubeadm-config"))
    except ApiError as problem:
        if problem.status != 403:
            raise
        found = None
    text = str(((found or {}).get("data") or {}).get("ClusterConfiguration") or "")
    named = _REPOSITORY.search(text)
    return named[1] if named else IMAGES


def _service(api: KubeClient) -> str:
    """The API server's address inside the cluster, which needs no DNS; empty where there is none."""
    found = api.find(api_path("api", "v1", "namespaces", "default", "services", "kubernetes"))
    if found is None:
        return ""
    address = str(found["spec"]["clusterIP"])
    shown = f"[{address}]" if ":" in address else address
    return f"https://{shown}:{found['spec']['ports'][0]['port']}"


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    metadata, status = node["metadata"], node.get("status") or {}
    addresses = {one["type"]: one["address"] for one in reversed(status.get("addresses") or [])}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or [])
    return {
        "name": metadata["name"],
        "address": addresses.get("InternalIP", ""),
        "control_plane": CONTROL_PLANE in (metadata.get("labels") or {}),
        "ready": ready,
    }
