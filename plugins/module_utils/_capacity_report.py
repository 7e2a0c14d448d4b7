# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Nodes with their pods, read from the API, and what to tell of their extended resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient, api_path
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_choice import choose_nodes
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import (
    UNKNOWN,
    Document,
    Resource,
    extended_resources,
    holders,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import ZERO

PODS = api_path("api", "v1", "pods")
WORKERS = 16
_FEW = 8  # nodes whose pods are asked for one node at a time; else all pods are read once


def read_nodes(
    client: KubeClient, names: Sequence[str], label_selectors: Sequence[str]
) -> list[tuple[Document, list[Document]]]:
    """The chosen nodes, each with the pods on it."""
    chosen = choose_nodes(client, names, label_selectors)
    with ThreadPoolExecutor(max_workers=max(1, min(WORKERS, len(chosen)))) as pool:
        nodes = list(
            pool.map(lambda entry: entry[1] or client.get(api_path("api", "v1", "nodes", entry[0])), chosen.items())
        )
        if len(nodes) <= _FEW:
            pods = list(pool.map(lambda name: client.items(PODS, field_selector=f"spec.nodeName={name}"), chosen))
        else:
            pods = _by_node(client.items(PODS, field_selector="spec.nodeName!="), chosen)
    return [(node, list(on_it)) for node, on_it in zip(nodes, pods, strict=True)]


def _by_node(pods: Iterable[dict[str, Any]], names: Iterable[str]) -> list[list[dict[str, Any]]]:
    sorted_pods: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for pod in pods:
        on_it = sorted_pods.get((pod.get("spec") or {}).get("nodeName", ""))
        if on_it is not None:
            on_it.append(pod)
    return list(sorted_pods.values())


def report(node: Document, pods: Iterable[Document]) -> dict[str, Any]:
    """One node as node_capacity_info returns it."""
    held = holders(pods)
    resources = []
    there = extended_resources(node)
    for name in sorted({*there, *held}):  # pods may hold what was removed under them
        resource = there.get(name, Resource(name, None, None, UNKNOWN, ""))
        on_it = held.get(name, [])
        resources.append(
            {
                "name": name,
                "capacity": resource.capacity or "",
                "allocatable": resource.allocatable or "",
                "requested": str(sum((one.amount for one in on_it), ZERO)),
                "pods": [{"namespace": one.namespace, "name": one.pod, "amount": str(one.amount)} for one in on_it],
                "owner": resource.owner,
                "manager": resource.manager,
                "live": resource.live,
            }
        )
    return {"node": node["metadata"]["name"], "resources": resources}
