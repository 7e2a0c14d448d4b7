# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Who holds which device: the PodResources list knows pods by name, the checkpoint by UID and what they were given.

The two are joined by what no two containers share, a resource's device IDs, together with the container's name. What
stands in one alone is told with its source: the kubelet leaves pods that are gone in its checkpoint for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._checkpoint import NO_NUMA, Checkpoint, Entry
from ansible_collections.colocation.kubernetes.plugins.module_utils._pod_resources import Grant, Held, read_grant
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import ProtobufError

POD_RESOURCES, CHECKPOINT = "pod_resources", "checkpoint"
Report = dict[str, Any]


def join(held: Sequence[Held], entries: Sequence[Entry]) -> list[Report]:
    """One report for each container and resource, in the order of resource, namespace, pod and container."""
    by_devices = {(entry.resource, entry.container, _ids(entry)): entry for entry in entries}
    by_device = {(*where, device): entry for (*where, ids), entry in by_devices.items() for device in ids}
    joined: list[Report] = []
    used: set[int] = set()
    for one in held:
        where = (one.resource, one.container)
        shared = (by_device.get((*where, device)) for device in one.devices)  # some may have been taken away since
        entry = by_devices.get((*where, frozenset(one.devices))) or next(filter(None, shared), None)
        if entry is not None:
            used.add(id(entry))
        joined.append(_report(one, entry))
    joined += [_report(None, entry) for entry in entries if id(entry) not in used]
    return sorted(joined, key=lambda one: tuple(one[name] for name in _ORDER))


def _ids(entry: Entry) -> frozenset[str]:
    return frozenset(device for devices in entry.devices.values() for device in devices)


_ORDER = ("resource", "namespace", "pod", "pod_uid", "container")


def _report(held: Held | None, entry: Entry | None) -> Report:
    grant, problem = _grant(entry)
    sources = [name for name, there in ((POD_RESOURCES, held), (CHECKPOINT, entry)) if there is not None]
    return {
        "resource": held.resource if held else entry.resource if entry else "",
        "namespace": held.namespace if held else "",
        "pod": held.pod if held else "",
        "pod_uid": entry.pod_uid if entry else "",
        "container": held.container if held else entry.container if entry else "",
        "devices": _devices(held, entry),
        "environment": dict(grant.environment),
        "mounts": [
            {"container_path": one.container_path, "host_path": one.host_path, "read_only": one.read_only}
            for one in grant.mounts
        ],
        "device_files": [
            {"container_path": one.container_path, "host_path": one.host_path, "permissions": one.permissions}
            for one in grant.devices
        ],
        "annotations": dict(grant.annotations),
        "cdi_devices": list(grant.cdi_devices),
        "sources": sources,
        "problem": problem,
    }


def _grant(entry: Entry | None) -> tuple[Grant, str]:
    nothing = Grant({}, (), (), {}, ())
    if entry is None:
        return nothing, ""
    try:
        return read_grant(entry.response), ""
    except ProtobufError as problem:
        return nothing, f"the device plugin's answer can't be read: {problem}"


def _devices(held: Held | None, entry: Entry | None) -> list[Report]:
    """Each device with its NUMA nodes; PodResources is the supported source, so it is believed first."""
    nodes: dict[str, set[int]] = {}
    if held is not None:
        nodes = {device: set(places) for device, places in held.devices.items()}
    elif entry is not None:
        for node, devices in entry.devices.items():
            for device in devices:
                nodes.setdefault(device, set()).update([] if node == NO_NUMA else [node])
    return [{"id": device, "numa_nodes": sorted(places)} for device, places in sorted(nodes.items())]


def count_resources(allocations: Iterable[Report], checkpoint: Checkpoint | None) -> list[Report]:
    """For each resource how many devices are registered as healthy, and how many are held."""
    taken: dict[str, set[str]] = {}
    for one in allocations:
        taken.setdefault(one["resource"], set()).update(device["id"] for device in one["devices"])
    registered: Mapping[str, Sequence[str]] = checkpoint.registered if checkpoint else {}
    return [
        {
            "name": name,
            "registered": len(registered[name]) if name in registered else None,
            "allocated": len(taken.get(name, ())),
            "free": len(set(registered[name]) - taken.get(name, set())) if name in registered else None,
        }
        for name in sorted({*taken, *registered})
    ]
