# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which pods another node has blocks for, so that telling them to go is a move and not an end. Values only.

A sketch of what the scheduler will do, on the safe side: Ready nodes without cordon, the pod's node selector, its
tolerations, and blocks that no pod on that node has asked for. What it can't judge (required node affinity) it calls
immovable; the scheduler may still find no place (processors, volumes), and the pod then waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colocation.device_plugin.reclaim_pods import PodFacts, amount, items, limit, part, together

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Room:
    """A node and its blocks."""

    node: str
    blocks: int  # offered, or free
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that would need room."""

    uid: str
    blocks: int
    facts: PodFacts


def rooms(nodes: Iterable[Mapping[str, Any]], resource: str, own: str) -> tuple[Room, ...]:
    """The other nodes that offer blocks and take pods, most blocks first."""
    found = (_room(node, resource) for node in nodes)
    others = [room for room in found if room and room.node != own]
    return tuple(sorted(others, key=lambda room: (-room.blocks, room.node)))


def taken(pods: Iterable[Mapping[str, Any]], resource: str) -> int:
    """Blocks that the pods of a node have asked for."""
    alive = (pod for pod in pods if part(pod, "status").get("phase") not in FINISHED)
    return sum(together(part(pod, "spec"), lambda container: limit(container, resource) or 0) for pod in alive)


def places(wishes: Sequence[Wish], free: Sequence[Room]) -> dict[str, str]:
    """The node for each pod that finds one, by UID; who comes first is placed first, where most is free."""
    left = {room.node: room.blocks for room in free}
    found = {}
    for wish in wishes:
        fitting = [room for room in free if wish.blocks <= left[room.node] and fits(wish.facts, room)]
        if fitting:
            room = min(fitting, key=lambda room: (-left[room.node], room.node))
            left[room.node] -= wish.blocks
            found[wish.uid] = room.node
    return found


def fits(pod: PodFacts, room: Room) -> bool:
    """Whether the pod may stand there, blocks aside."""
    selected = all(room.labels.get(key) == value for key, value in pod.selector)
    return pod.movable and selected and all(_tolerated(pod, taint) for taint in room.taints)


def _tolerated(pod: PodFacts, taint: Taint) -> bool:
    return any(
        borne.effect in ("", taint.effect)
        and (borne.key == taint.key or (not borne.key and borne.value is None))
        and borne.value in (None, taint.value)
        for borne in pod.tolerations
    )


def _room(node: Mapping[str, Any], resource: str) -> Room | None:
    metadata, spec, status = part(node, "metadata"), part(node, "spec"), part(node, "status")
    blocks = amount(str(part(status, "allocatable").get(resource, "0"))) or 0
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in items(status, "conditions"))
    if not blocks or not ready or spec.get("unschedulable"):
        return None
    taints = tuple(
        Taint(str(t.get("key")), str(t.get("value") or ""), str(t.get("effect")))
        for t in items(spec, "taints")
        if t.get("effect") in ("NoSchedule", "NoExecute")
    )
    labels = {str(key): str(value) for key, value in part(metadata, "labels").items()}
    return Room(str(metadata.get("name")), blocks, labels, taints)
