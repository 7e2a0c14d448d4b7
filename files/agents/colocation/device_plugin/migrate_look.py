# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Asks the API which other nodes have free blocks, with an identity that may list nodes and pods.

Nodes are listed once, and pods a node at a time, of those first that offer the most blocks, until some have blocks to
spare: most of what a cluster of a thousand nodes has is never asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from colocation.common.kube_api import KubeApi
from colocation.device_plugin.migrate import Room, rooms, taken

ENOUGH = 5  # nodes with free blocks
MOST_NODES = 50  # whose pods are listed


def look(api: KubeApi, resource: str, own: str, busy: Callable[[], bool] = lambda: False) -> tuple[Room, ...]:
    """Nodes with free blocks, most first, as far as was seen before `busy`; raises ApiError."""
    listed = api.get("/api/v1/nodes", resourceVersion="0")
    found: list[Room] = []
    for room in rooms(listed.get("items") or (), resource, own)[:MOST_NODES]:
        if len(found) == ENOUGH or busy():
            break
        query = {"fieldSelector": f"spec.nodeName={room.node}", "resourceVersion": "0"}
        free = room.blocks - taken(api.get("/api/v1/pods", **query).get("items") or (), resource)
        if free > 0:
            found.append(replace(room, blocks=free))
    return tuple(sorted(found, key=lambda room: (-room.blocks, room.node)))
