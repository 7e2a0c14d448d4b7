# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where GPUs are seen: what a backend has to answer, and the GPUs that are offered of what it saw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from colocation.device_plugin.gpus import Gpu

DESTROYED = "this instance of MIG is gone"


class NoDriver(Exception):
    """The GPUs can't be seen; says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One GPU as a poll sees it."""

    uuid: str
    memory_mib: int
    model: str
    numa: int | None
    ill: str
    instances: tuple[tuple[str, int], ...] | None = None  # of MIG: UUID and MiB; None where MIG is off
    destroyed: tuple[tuple[str, int], ...] = ()  # instances that it had before
    cleared: bool = False  # the driver itself says that it needs no reset


class Backend(ABC):
    """Used from one thread, but for `close`."""

    about = ""
    left_out: tuple[str, ...] = ()  # in words, the GPUs that the last poll found and could tell nothing else of

    @abstractmethod
    def poll(self) -> tuple[Seen, ...]:
        """All GPUs as they are now, or NoDriver."""

    @abstractmethod
    def wait(self, seconds: float) -> tuple[tuple[str, int], ...]:
        """Errors that the driver reports, each a UUID and an XID; at the latest after that time, or when closed."""

    @abstractmethod
    def close(self) -> None:
        """End, and let nobody wait."""


def with_destroyed(one: Seen, before: Seen | None) -> Seen:
    """A GPU in MIG mode, with those of its instances that were there before and are no more."""
    if one.instances is None or before is None or before.instances is None:
        return one
    there = {uuid for uuid, _mib in one.instances}
    gone = (part for part in (*before.instances, *before.destroyed) if part[0] not in there)
    return replace(one, destroyed=tuple(gone))


def offered(seen: Iterable[Seen], ill: Mapping[str, str], mig: str) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """The GPUs on offer, and in words those that are left out. An instance is ill when its GPU is."""
    gpus: list[Gpu] = []
    left_out: list[str] = []
    for one in sorted(seen, key=lambda each: each.uuid):
        why = ill.get(one.uuid, one.ill)
        if one.instances is None:
            gpus.append(Gpu(one.uuid, one.memory_mib, one.model, one.numa, why))
        elif mig == "skip":
            left_out.append(f"{one.uuid} is in MIG mode")
        else:
            parts = [(*part, why) for part in one.instances] + [(*part, why or DESTROYED) for part in one.destroyed]
            gpus += [Gpu(uuid, mib, f"MIG of {one.model}", one.numa, ill) for uuid, mib, ill in sorted(parts)]
    return tuple(gpus), tuple(left_out)
