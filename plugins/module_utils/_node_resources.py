# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a Node object says of its extended resources, and what pods on it hold. Values in, values out.

Who wrote a resource stands in the Node's managedFields: the API server keeps there, for each key, the name of the last
writer that changed it. So nothing of our own has to be kept beside the value, where it could drift from it.
The kubelet writes the resources of device plugins and nothing else that is extended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import (
    ZERO,
    Quantity,
    QuantityError,
    parse_quantity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._resource_name import is_extended

FIELD_MANAGER = "colocation.kubernetes.node_capacity"
DEVICE_PLUGIN, NODE_CAPACITY, UNKNOWN = "device_plugin", "node_capacity", "unknown"
_KUBELET = "kubelet"
_ENDED = ("Succeeded", "Failed")
_READY = 'k:{"type":"Ready"}'
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """An extended resource of a node; the texts are those of the API, letter by letter."""

    name: str
    capacity: str | None
    allocatable: str | None
    owner: str
    manager: str  # the last writer's own name, empty where the API does not know it

    @property
    def amount(self) -> Quantity:
        return _amount(self.capacity)

    @property
    def offered(self) -> Quantity:
        return _amount(self.allocatable)

    @property
    def live(self) -> bool:
        """A device plugin stands behind it now: the kubelet offers healthy devices, which end with the plugin."""
        return self.owner == DEVICE_PLUGIN and self.offered > ZERO

    @property
    def letting_go(self) -> bool:
        """Its plugin went, and the kubelet writes the count for five more minutes; or all its devices are unhealthy."""
        return self.owner == DEVICE_PLUGIN and self.amount > ZERO and not self.live


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod and how much of one resource it holds."""

    namespace: str
    pod: str
    amount: Quantity

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod} ({self.amount})"


def extended_resources(node: Document) -> dict[str, Resource]:
    """All extended resources in capacity or allocatable, in the order of their names."""
    capacity, allocatable = _texts(node, "capacity"), _texts(node, "allocatable")
    writers = _writers(node)
    kubelets = _kubelets(node)
    found = {}
    for name in sorted({*capacity, *allocatable}):
        if is_extended(name):
            manager, owner = _owner(writers.get(name, ()), kubelets)
            found[name] = Resource(name, capacity.get(name), allocatable.get(name), owner, manager)
    return found


def patched_by_us(node: Document) -> dict[str, str]:
    """Capacity of the resources that node_capacity wrote last: what a rejoined node gets back."""
    return {
        name: resource.capacity
        for name, resource in extended_resources(node).items()
        if resource.owner == NODE_CAPACITY and resource.capacity is not None
    }


def holders(pods: Iterable[Document]) -> dict[str, list[Holder]]:
    """Who holds each extended resource; pods that have ended hold nothing."""
    held: dict[str, list[Holder]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        metadata = pod.get("metadata") or {}
        for name, amount in pod_requests(pod).items():
            if is_extended(name) and amount > ZERO:
                held.setdefault(name, []).append(
                    Holder(str(metadata.get("namespace", "")), str(metadata.get("name", "")), amount)
                )
    return held


def pod_requests(pod: Document) -> dict[str, Quantity]:
    """What the scheduler counts for a pod: all containers together, or its hungriest moment of initialisation.

    An init container that restarts always is a sidecar: it stays beside what comes after it.
    """
    spec = pod.get("spec") or {}
    running: dict[str, Quantity] = {}
    for container in spec.get("containers") or []:
        _add(running, _requests(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or []:
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        moment = dict(sidecars)
        _add(moment, asked)
        _raise(peak, moment)
    _add(running, sidecars)
    _raise(running, peak)
    _add(running, _quantities(spec.get("overhead")))
    return running


def _requests(container: Document) -> dict[str, Quantity]:
    """Requests; a limit alone counts as one."""
    resources = container.get("resources") or {}
    return {**_quantities(resources.get("limits")), **_quantities(resources.get("requests"))}


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, ZERO) + amount


def _raise(peak: dict[str, Quantity], moment: Mapping[str, Quantity]) -> None:
    for name, amount in moment.items():
        peak[name] = max(peak.get(name, ZERO), amount)


def _quantities(texts: Any) -> dict[str, Quantity]:
    return {name: _amount(str(text)) for name, text in texts.items()} if isinstance(texts, Mapping) else {}


def _amount(text: str | None) -> Quantity:
    """The API writes quantities only; what it could not have written counts as nothing."""
    try:
        return ZERO if text is None else parse_quantity(text)
    except QuantityError:
        return ZERO


def _texts(node: Document, part: str) -> dict[str, str]:
    values = (node.get("status") or {}).get(part) or {}
    return {name: str(value) for name, value in values.items()}


def _owner(managers: Iterable[str], kubelets: set[str]) -> tuple[str, str]:
    """The manager that counts among those that hold a key, and what it is to us."""
    ordered = sorted(managers)
    for manager in ordered:
        if manager in kubelets:
            return manager, DEVICE_PLUGIN
    if FIELD_MANAGER in ordered:
        return FIELD_MANAGER, NODE_CAPACITY
    return (ordered[0] if ordered else ""), UNKNOWN


def _writers(node: Document) -> dict[str, set[str]]:
    """The managers of each key of capacity."""
    found: dict[str, set[str]] = {}
    for manager, status in _managed_status(node):
        for key in status.get("f:capacity") or {}:
            found.setdefault(key.removeprefix("f:"), set()).add(manager)
    return found


def _kubelets(node: Document) -> set[str]:
    """What the kubelet calls itself: other distributions have one under another name, but all send heartbeats."""
    found = {_KUBELET}
    for manager, status in _managed_status(node):
        ready = (status.get("f:conditions") or {}).get(_READY) or {}
        if "f:lastHeartbeatTime" in ready:
            found.add(manager)
    return found


def _managed_status(node: Document) -> Iterator[tuple[str, Document]]:
    for entry in (node.get("metadata") or {}).get("managedFields") or []:
        status = (entry.get("fieldsV1") or {}).get("f:status")
        if isinstance(status, Mapping):
            yield str(entry.get("manager", "")), status
