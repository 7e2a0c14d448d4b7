# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Node as its own kubelet sees it in the API: there or not, ready or not, and what else its status says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import Condition
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import NodeObject
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_of, user_name
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import judge
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import (
    DEVICE_PLUGIN,
    extended_resources,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import DRAINING, REJOINING

LEASES = ("apis", "coordination.k8s.io", "v1", "namespaces", "kube-node-lease", "leases")


def read_node_object(
    access: Access, name: str, since: float, timeout: float, registered: Collection[str] | None
) -> NodeObject:
    """Node and lease, each asked for once. Whose token it is, or whom a program speaks for, the API server knows."""
    try:
        with KubeClient(access, timeout=timeout, tries=1) as api:
            name = name if access.certificate else node_of(user_name(api)) or name
            node = api.get(api_path("api", "v1", "nodes", name))
            lease = _lease(api, name)
    except AccessError as problem:
        return NodeObject(name, 0, str(problem))
    except ApiError as problem:
        return NodeObject(name, problem.status, str(problem))
    return describe(name, node, lease, since, registered)


def _lease(api: KubeClient, name: str) -> dict[str, Any]:
    """A Node that was made a moment ago has none yet."""
    try:
        return api.get(api_path(*LEASES, name))
    except ApiError as problem:
        if problem.status == 404:
            return {}
        raise


def describe(
    name: str, node: Mapping[str, Any], lease: Mapping[str, Any], since: float, registered: Collection[str] | None
) -> NodeObject:
    """Both in values."""
    status = _mapping(node.get("status"))
    listed = status.get("conditions")
    conditions = tuple(
        Condition(*(str(one.get(key) or "") for key in ("type", "status", "reason", "message")))
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, Mapping)
    )
    annotations = _mapping(_mapping(node.get("metadata")).get("annotations"))
    cordoned = bool(_mapping(node.get("spec")).get("unschedulable"))
    return NodeObject(
        name=name,
        status=200,
        problem="",
        readiness=judge(dict(node), dict(lease), since),
        conditions=conditions,
        cordoned=cordoned,
        rejoining=cordoned and not {DRAINING, REJOINING}.isdisjoint(annotations),
        leftovers=leftovers(node, registered),
    )


def leftovers(node: Mapping[str, Any], registered: Collection[str] | None) -> tuple[str, ...]:
    """Resources that a device plugin left: the kubelet wrote them, offers none, and knows no such plugin any more.

    Without the checkpoint's word (None) nothing is known of the plugins, so nothing is called a leftover.
    """
    if registered is None:
        return ()
    return tuple(
        f"{name}={one.capacity}"
        for name, one in extended_resources(node).items()
        if one.owner == DEVICE_PLUGIN and not one.live and name not in registered
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
