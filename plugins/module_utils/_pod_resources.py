# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelet's answers in values: the PodResources list, and what a device plugin answered to Allocate.

Field numbers are those of podresources/v1 and deviceplugin/v1beta1; a test holds them against the .proto files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import (
    messages,
    number,
    text,
    text_map,
    texts,
)

LIST_METHOD = "/v1.PodResourcesLister/List"


@dataclass(frozen=True, slots=True)
class Held:
    """Devices of one resource that a container holds, with the NUMA nodes of each."""

    namespace: str
    pod: str
    container: str
    resource: str
    devices: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Mount:
    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class DeviceFile:
    container_path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a device plugin put into a container."""

    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    devices: tuple[DeviceFile, ...]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]


def read_list(answer: bytes) -> list[Held]:
    """Who holds which device, of a ListPodResourcesResponse."""
    found = []
    for pod in messages(answer, 1):
        name, namespace = text(pod, 1), text(pod, 2)
        for container in messages(pod, 3):
            by_resource: dict[str, dict[str, tuple[int, ...]]] = {}
            for devices in messages(container, 2):  # the kubelet sends one of these for each device
                nodes = tuple(number(node, 1) for topology in messages(devices, 3) for node in messages(topology, 1))
                held = by_resource.setdefault(text(devices, 1), {})
                held.update(dict.fromkeys(texts(devices, 2), nodes))
            for resource, ids in by_resource.items():
                found.append(Held(namespace, name, text(container, 1), resource, ids))
    return found


def read_grant(response: bytes) -> Grant:
    """What a ContainerAllocateResponse says."""
    return Grant(
        environment=text_map(response, 1),
        mounts=tuple(Mount(text(one, 1), text(one, 2), bool(number(one, 3))) for one in messages(response, 2)),
        devices=tuple(DeviceFile(text(one, 1), text(one, 2), text(one, 3)) for one in messages(response, 3)),
        annotations=text_map(response, 4),
        cdi_devices=tuple(text(one, 1) for one in messages(response, 5)),
    )
