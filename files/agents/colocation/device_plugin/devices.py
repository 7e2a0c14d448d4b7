# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Devices, and where they come from. No sockets, no kubelet: values in, decisions out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

MOST_MESSAGE = 4 << 20  # bytes that the kubelet takes in one message


class NoSuchDevice(Exception):
    """The kubelet asks for a device that is not offered."""


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that one container can hold."""

    id: str
    healthy: bool = True
    numa: int | None = None  # the NUMA node it belongs to


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets with its devices."""

    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Source(Protocol):
    """Where the devices of one resource come from."""

    @property
    def resource(self) -> str:
        """The name of the resource."""

    def devices(self) -> tuple[Device, ...]:
        """All devices, in a stable order."""

    def grant(self, ids: Sequence[str]) -> Grant:
        """What a container with these devices gets, or NoSuchDevice."""


class MockSource:
    """Devices that are nothing but their names, to see that everything around them works."""

    def __init__(self, resource: str, count: int) -> None:
        self.resource = resource
        stem = resource.replace("/", "_")  # IDs that no other resource has: kubelets have mixed up equal ones
        self._devices = tuple(Device(f"{stem}-{number}") for number in range(count))
        self._ids = frozenset(device.id for device in self._devices)

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def grant(self, ids: Sequence[str]) -> Grant:
        unknown = sorted(set(ids) - self._ids)
        if unknown:
            raise NoSuchDevice(f"{self.resource} has no device {', '.join(unknown[:5])}")
        return Grant({variable_name(self.resource): ",".join(ids)})


def variable_name(resource: str) -> str:
    """The environment variable that names a container's devices: MOCK_COM_GPU for mock.com/gpu."""
    return re.sub(r"[^A-Z0-9]", "_", resource.upper())


def encoded_size(devices: Sequence[Device]) -> int:
    """Bytes of the list on the wire, by protobuf's rules."""
    return sum(_field(_device_size(device)) for device in devices)


def too_large(devices: Sequence[Device]) -> str | None:
    """Why a list can't be sent to the kubelet, or nothing."""
    size = encoded_size(devices)
    if size <= MOST_MESSAGE:
        return None
    factor = -(-size // MOST_MESSAGE)
    return (
        f"{len(devices)} devices make a list of {size} bytes and the kubelet takes {MOST_MESSAGE}: "
        f"make the unit of this resource {factor} times as large"
    )


def _device_size(device: Device) -> int:
    health = len("Healthy") if device.healthy else len("Unhealthy")
    numa = 0
    if device.numa is not None:
        node = 1 + _varint(device.numa) if device.numa else 0  # zero is not written
        numa = _field(_field(node))
    return _field(len(device.id.encode())) + _field(health) + numa


def _field(size: int) -> int:
    """A field of that many bytes, with its tag and length."""
    return 1 + _varint(size) + size


def _varint(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))
