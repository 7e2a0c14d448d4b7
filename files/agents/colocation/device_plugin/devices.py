# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Devices, and where they come from. No sockets, no kubelet: values in, decisions out."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

MOST_MESSAGE = 4 << 20  # bytes that the kubelet takes in one message
FRAME = 13  # of these, for each healthy device without a hint, beside its name
HINT = 6  # and so many more with one
STEM = 3  # of mock devices' short names


class NoSuchDevice(Exception):
    """The kubelet asks for a device that is not offered."""


class Refused(Exception):
    """A container can't have what the kubelet wants for it; says why."""


class NotReady(Exception):
    """A source can't say yet what it has; nothing is offered until it can."""


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that one container can hold."""

    id: str
    healthy: bool = True
    numa: int | None = None  # the NUMA node it belongs to, as a hint to the kubelet's topology manager


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets with its devices."""

    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cdi: tuple[str, ...] = ()  # devices by their names of the Container Device Interface


@dataclass(frozen=True, slots=True)
class Options:
    """Which optional calls of the kubelet a source answers."""

    prefers: bool = False  # GetPreferredAllocation
    starts: bool = False  # PreStartContainer


class Source(ABC):
    """Where the devices of one resource come from. The framework does all the rest.

    `devices` is called from one thread, the others from any, also at the same time.
    """

    resource: str
    options = Options()
    link = ""  # a name for the link to the socket, if not the resource's own

    @abstractmethod
    def devices(self, held: Set[str]) -> tuple[Device, ...]:
        """All devices, in a stable order; `held` are IDs that containers have. The same object means: as before."""

    @abstractmethod
    def grant(self, ids: Sequence[str]) -> Grant:
        """What a container with these devices gets, or NoSuchDevice."""

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        """The `size` devices that go best together; `must` are among them."""
        raise NotImplementedError

    def start(self, ids: Sequence[str]) -> None:
        """A container with these devices is about to start; an error keeps it from that."""
        raise NotImplementedError

    def larger_unit(self, factor: int) -> str:
        """What to do where the list is `factor` times as long as the kubelet takes."""
        return f"make the unit of this resource {factor} times as large"


class MockSource(Source):
    """Devices that are nothing but their names, to see that everything around them works.

    No other resource has these names: kubelets have mixed up equal ones. They are short where the long ones would not
    fit the kubelet's message.
    """

    def __init__(self, resource: str, count: int) -> None:
        self.resource = resource
        self._refused = too_large(count, count * (FRAME + STEM) + digits(count, 36), self.larger_unit)
        count = 0 if self._refused else count
        stem = resource.replace("/", "_")
        if count * (FRAME + len(f"{stem}-{count}")) <= MOST_MESSAGE:
            names = (f"{stem}-{number}" for number in range(count))
        else:
            short = _short(int(hashlib.sha256(resource.encode()).hexdigest(), 16) % 36**STEM).rjust(STEM, "0")
            names = (short + _short(number) for number in range(count))
        self._devices = tuple(map(Device, names))
        self._ids = frozenset(device.id for device in self._devices)

    def devices(self, held: Set[str]) -> tuple[Device, ...]:
        if self._refused:
            raise NotReady(self._refused)
        return self._devices

    def grant(self, ids: Sequence[str]) -> Grant:
        refuse_unknown(self.resource, ids, self._ids)
        return Grant({variable_name(self.resource): ",".join(ids)})


def _short(number: int) -> str:
    """A number in 36 digits."""
    digits = ""
    while number or not digits:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits


def digits(count: int, base: int = 10) -> int:
    """How many digits the numbers below `count` have together."""
    more, power = count, base
    while power < count:
        more += count - power
        power *= base
    return more


def refuse_unknown(resource: str, ids: Iterable[str], known: Collection[str]) -> None:
    """NoSuchDevice if there is one that is not known."""
    unknown = sorted(id for id in set(ids) if id not in known)
    if unknown:
        raise NoSuchDevice(f"{resource} has no device {', '.join(unknown[:5])}")


def variable_name(resource: str) -> str:
    """The environment variable that names a container's devices: MOCK_COM_GPU for mock.com/gpu."""
    return re.sub(r"[^A-Z0-9]", "_", resource.upper())


def keep_held(devices: tuple[Device, ...], held: Set[str]) -> tuple[Device, ...]:
    """The devices with those that containers hold although the source has them no more.

    The kubelet refuses a pod after its own restart when one of the pod's devices is not on the list, so a device stays
    until nobody holds it, in front of the others.
    """
    missing = held - {device.id for device in devices} if held else ()
    return (*(Device(id) for id in sorted(missing)), *devices) if missing else devices


def too_large(count: int, size: int, larger_unit: Callable[[int], str]) -> str | None:
    """Why a list of that many devices and bytes can't be sent to the kubelet, or nothing."""
    if size <= MOST_MESSAGE:
        return None
    advice = larger_unit(-(-size // MOST_MESSAGE))
    return f"{count} devices make a list of {size} bytes and the kubelet takes {MOST_MESSAGE}: {advice}"
