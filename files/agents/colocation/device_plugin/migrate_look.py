# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Asks the API which other nodes have free blocks, with an identity that may list nodes and pods.

Nodes are listed once, and pods only of the few nodes that offer the most blocks, a node at a time: most of what a
cluster of a thousand nodes has is never asked for.
"""

from __future__ import annotations

from dataclasses import replace

from colocation.common.kube_api import KubeApi
from colocation.device_plugin.migrate import Room, rooms, taken

MOST_NODES = 5  # whose pods are listed


def look(api: KubeApi, resource: str, own: str) -> tuple[Room, ...]:
    """Nodes with free blocks, most first; raises ApiError."""
    listed = api.get("/api/v1/nodes", resourceVersion="0")
    found = []
    for room in rooms(listed.get("items") or (), resource, own)[:MOST_NODES]:
        query = {"fieldSelector": f"spec.nodeName={room.node}", "resourceVersion": "0"}
        free = room.blocks - taken(api.get("/api/v1/pods", **query).get("items") or (), resource)
        if free > 0:
            found.append(replace(room, blocks=free))
    return tuple(sorted(found, key=lambda room: (-room.blocks, room.node)))
