# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelet's device plugin API, v1beta1: the messages and fields in use, between bytes and values of ours.

Numbers and names are the API's; a contract test holds them against the .proto file of each supported Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colocation.common.protobuf import message_classes
from colocation.device_plugin.devices import Device, Grant

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
    },
}
MESSAGES = message_classes(VERSION, TABLE)


def encode_registration(endpoint: str, resource: str) -> bytes:
    """What a plugin tells the kubelet: the name of its socket and what it offers."""
    return _bytes(MESSAGES["RegisterRequest"](version=VERSION, endpoint=endpoint, resource_name=resource, options={}))


def encode_options() -> bytes:
    """Neither PreStartContainer nor GetPreferredAllocation is wanted."""
    return _bytes(MESSAGES["DevicePluginOptions"]())


def encode_devices(devices: Sequence[Device]) -> bytes:
    """The list of devices as ListAndWatch sends it."""
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
        message.container_responses.add(envs=dict(grant.environment), annotations=dict(grant.annotations))
    return _bytes(message)


def _bytes(message: Any) -> bytes:
    content: bytes = message.SerializeToString(deterministic=True)
    return content
