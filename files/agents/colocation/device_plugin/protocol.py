# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelet's device plugin API, v1beta1: the messages and fields in use, between bytes and values of ours.

Numbers and names are the API's; a contract test holds them against the .proto file of each supported Kubernetes. Only
the list of devices, which can be large, is encoded by hand, in less than half the time that messages take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from colocation.common.protobuf import message_classes
from colocation.device_plugin.devices import Device, Grant, Options

VERSION = "v1beta1"
PLUGIN = f"{VERSION}.DevicePlugin"
REGISTER = f"/{VERSION}.Registration/Register"
TABLE = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "ListAndWatchResponse": {"devices": (1, "repeated Device")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "TopologyInfo": {"nodes": (1, "repeated NUMANode")},
    "NUMANode": {"ID": (1, "int64")},
    "AllocateRequest": {"container_requests": (1, "repeated ContainerAllocateRequest")},
    "ContainerAllocateRequest": {"devices_ids": (1, "repeated string")},
    "AllocateResponse": {"container_responses": (1, "repeated ContainerAllocateResponse")},
    "ContainerAllocateResponse": {
        "envs": (1, "map<string, string>"),
        "annotations": (4, "map<string, string>"),
        "cdi_devices": (5, "repeated CDIDevice"),
    },
    "CDIDevice": {"name": (1, "string")},
    "PreferredAllocationRequest": {"container_requests": (1, "repeated ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "repeated string"),
        "must_include_deviceIDs": (2, "repeated string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationResponse": {"container_responses": (1, "repeated ContainerPreferredAllocationResponse")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "repeated string")},
    "PreStartContainerRequest": {"devices_ids": (1, "repeated string")},
    "PreStartContainerResponse": {},
}
MESSAGES = message_classes(VERSION, TABLE)


@dataclass(frozen=True, slots=True)
class Preference:
    """What the kubelet asks before it chooses devices for a container."""

    available: tuple[str, ...]
    must: tuple[str, ...]  # those that it has chosen already
    size: int


def encode_registration(endpoint: str, resource: str, options: Options) -> bytes:
    """What a plugin tells the kubelet: the name of its socket, what it offers, and which calls it answers."""
    request = MESSAGES["RegisterRequest"](version=VERSION, endpoint=endpoint, resource_name=resource)
    request.options.CopyFrom(_options(options))
    return _bytes(request)


def encode_options(options: Options) -> bytes:
    """Which optional calls the plugin answers."""
    return _bytes(_options(options))


def _options(options: Options) -> Any:
    return MESSAGES["DevicePluginOptions"](
        pre_start_required=options.starts, get_preferred_allocation_available=options.prefers
    )


def encode_devices(devices: Sequence[Device]) -> bytes:
    """The list of devices as ListAndWatch sends it.

    A device is a field with its length, then its ID with its length, its health, its topology. As long as a length and
    a text are ASCII they are one byte each, so the list is made as one text and encoded at the end.
    """
    frames: dict[tuple[int, bool, int | None], tuple[str, str]] = {}
    parts: list[str] = []
    for device in devices:
        id = device.id
        key = (len(id), device.healthy, device.numa)
        frame = frames.get(key)
        if frame is None:
            tail = _tail(device.healthy, device.numa)
            if not tail.isascii() or len(id) + 2 + len(tail) > 127:
                return _encode_any(devices)
            frame = frames[key] = (f"\n{chr(len(id) + 2 + len(tail))}\n{chr(len(id))}", tail.decode())
        parts.append(f"{frame[0]}{id}{frame[1]}")
    text = "".join(parts)
    return text.encode() if text.isascii() else _encode_any(devices)


def _tail(healthy: bool, numa: int | None) -> bytes:
    """What follows a device's ID."""
    message = MESSAGES["Device"](health="Healthy" if healthy else "Unhealthy")
    if numa is not None:
        message.topology.nodes.add(ID=numa)
    return _bytes(message)


def _encode_any(devices: Sequence[Device]) -> bytes:
    message = MESSAGES["ListAndWatchResponse"]()
    for device in devices:
        added = message.devices.add(ID=device.id, health="Healthy" if device.healthy else "Unhealthy")
        if device.numa is not None:
            added.topology.nodes.add(ID=device.numa)
    return _bytes(message)


def decode_allocation(content: bytes) -> tuple[tuple[str, ...], ...]:
    """The device IDs that each container gets."""
    request = MESSAGES["AllocateRequest"].FromString(content)
    return tuple(tuple(container.devices_ids) for container in request.container_requests)


def encode_grants(grants: Sequence[Grant]) -> bytes:
    """The answer to an allocation, a part for each container."""
    message = MESSAGES["AllocateResponse"]()
    for grant in grants:
        part = {"envs": dict(grant.environment), "annotations": dict(grant.annotations)}
        message.container_responses.add(**part, cdi_devices=[{"name": name} for name in grant.cdi])
    return _bytes(message)


def decode_preferences(content: bytes) -> tuple[Preference, ...]:
    """What the kubelet asks for each container before it chooses."""
    request = MESSAGES["PreferredAllocationRequest"].FromString(content)
    return tuple(
        Preference(tuple(one.available_deviceIDs), tuple(one.must_include_deviceIDs), one.allocation_size)
        for one in request.container_requests
    )


def encode_preferences(preferences: Iterable[Sequence[str]]) -> bytes:
    """The devices that go best together, a part for each container."""
    parts = [{"deviceIDs": list(ids)} for ids in preferences]
    return _bytes(MESSAGES["PreferredAllocationResponse"](container_responses=parts))


def decode_start(content: bytes) -> tuple[str, ...]:
    """The devices of the container that is about to start."""
    return tuple(MESSAGES["PreStartContainerRequest"].FromString(content).devices_ids)


def _bytes(message: Any) -> bytes:
    content: bytes = message.SerializeToString(deterministic=True)
    return content
