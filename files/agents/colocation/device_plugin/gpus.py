# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""GPUs as devices: their names, how finely they are cut, what a container with some of their units gets. Pure.

A device is one unit of one GPU's memory, and its name says of which: `9b341c59-17` is the 18th unit of the GPU whose
UUID begins with 9b341c59. So whoever reads an ID, in the kubelet's checkpoint or after any restart, knows the GPU and
needs no book of ours. As a pod's status names every device of each container, a GPU is cut into 4096 units at most.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from colocation.device_plugin.devices import FRAME, HINT, MOST_MESSAGE, Device, NoSuchDevice

MOST_UNITS = 4096  # of one container: at some 50 bytes each less than 256 KiB of its pod's status
CODE = 8  # characters of a GPU's short name
LARGEST_UNIT = 1 << 20
_UUID = re.compile(r"(?:GPU|MIG)-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or a part of one that MIG made, which is the same to whoever uses it."""

    uuid: str
    memory_mib: int
    model: str = ""
    numa: int | None = None
    ill: str = ""  # why nobody new may have it

    @property
    def code(self) -> str:
        """Its short name, the same for ever."""
        found = _UUID.fullmatch(self.uuid)
        return found[1] if found else hashlib.sha256(self.uuid.encode()).hexdigest()[:CODE]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The GPUs that are offered, cut into units."""

    gpus: tuple[Gpu, ...]
    unit_mib: int
    _by_code: dict[str, Gpu] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_code", {gpu.code: gpu for gpu in self.gpus})

    def units(self, gpu: Gpu) -> int:
        """How many whole units it has."""
        return gpu.memory_mib // self.unit_mib

    def with_code(self, code: str) -> Gpu | None:
        return self._by_code.get(code)

    def with_uuid(self, uuid: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def gpu_of(self, id: str) -> Gpu | None:
        """The GPU of a device; None for one that is not offered."""
        place = parse(id)
        gpu = self._by_code.get(place[0]) if place else None
        return gpu if gpu and place and place[1] < self.units(gpu) else None

    def of(self, ids: Iterable[str]) -> tuple[Gpu, ...]:
        """The GPUs of devices, in the order of the catalog, or NoSuchDevice."""
        found: set[str] = set()
        for id in ids:
            gpu = self.gpu_of(id)
            if gpu is None:
                raise NoSuchDevice(f"{id} is no unit of a GPU of this node")
            found.add(gpu.code)
        return tuple(gpu for gpu in self.gpus if gpu.code in found)

    def devices(self, hints: bool) -> tuple[Device, ...]:
        """The list for the kubelet, with each GPU's NUMA node if it should know them."""
        return tuple(
            Device(name(gpu.code, number), not gpu.ill, gpu.numa if hints else None)
            for gpu in self.gpus
            for number in range(self.units(gpu))
        )


def name(code: str, number: int) -> str:
    return f"{code}-{number}"


def parse(id: str) -> tuple[str, int] | None:
    """Code and number of a device; None for what is none of ours. Without a pattern, for there are thousands."""
    code, _dash, number = id.rpartition("-")
    plain = number.isascii() and number.isdecimal() and len(number) < 8 and (number[0] != "0" or number == "0")
    return (code, int(number)) if plain and len(code) == CODE else None


def namesakes(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """UUIDs of GPUs that share their short name with one before them; these can't be told apart by their devices."""
    codes = [gpu.code for gpu in gpus]
    return tuple(gpu.uuid for number, gpu in enumerate(gpus) if gpu.code in codes[:number])


def fits(memories_mib: Sequence[int], unit_mib: int, several: bool) -> bool:
    """Whether a node's list is small enough for the kubelet, and its largest request for a pod's status."""
    counts = [memory // unit_mib for memory in memories_mib]
    size = sum(count * (FRAME + HINT + len(name("0" * CODE, max(count - 1, 0)))) for count in counts)
    largest = sum(counts) if several else max(counts, default=0)
    return size <= MOST_MESSAGE and largest <= MOST_UNITS


def least_unit(memories_mib: Sequence[int], several: bool) -> int:
    """The smallest power of two, in MiB, that fits these GPUs of one node."""
    unit = 1
    while unit < LARGEST_UNIT and not fits(memories_mib, unit, several):
        unit *= 2
    return unit


def complaint(catalog: Catalog, several: bool) -> str:
    """Why these GPUs can't be offered in these units, and which would do."""
    memories = [gpu.memory_mib for gpu in catalog.gpus]
    if not fits(memories, catalog.unit_mib, several):
        counts = sum(map(catalog.units, catalog.gpus))
        return (
            f"units of {catalog.unit_mib} MiB would make {counts} devices of this node's {len(memories)} GPUs, too many"
            f" for the kubelet's messages or a pod's status: set unit_mib to {least_unit(memories, several)} or more,"
            " on all nodes"
        )
    small = [gpu for gpu in catalog.gpus if not catalog.units(gpu)]
    if small:
        return (
            f"a unit of {catalog.unit_mib} MiB is more than the {small[0].memory_mib} MiB of {small[0].uuid}:"
            f" set unit_mib to {small[0].memory_mib} or less, on all nodes"
        )
    return ""
