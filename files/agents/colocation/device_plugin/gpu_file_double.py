# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the GPUs and their driver: a file says what there is. For machines without GPUs, and for tests.

    gpus:
      - {uuid: GPU-0001, memoryMiB: 81920, model: H100, numa: 0, health: healthy}
      - uuid: GPU-0002
        memoryMiB: 81920
        mig: [{uuid: MIG-0001, memoryMiB: 10240}]     # in MIG mode, with one instance

`health` is `healthy` or why it is ill. The file may be replaced at any time; the next poll reads it. As with a driver,
GPUs that were there are ill while the file does not name them or can't be read: half a file may look like a whole one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from colocation.common.config import KEY, Between, ConfigError, load
from colocation.device_plugin.gpu_backend import Backend, NoDriver, Seen

HEALTHY = "healthy"
Mib = Annotated[int, Between(1, 1 << 24)]


def name(text: str) -> str | None:
    """A check: a UUID, or what stands for one."""
    plain = text and text.isascii() and all(c.isalnum() or c in "-_./" for c in text)
    return None if plain else f'"{text}" is no UUID of a GPU'


@dataclass(frozen=True, slots=True)
class Instance:
    """A part of a GPU that MIG made."""

    uuid: Annotated[str, name]
    memory_mib: Mib = field(metadata={KEY: "memoryMiB"})


@dataclass(frozen=True, slots=True)
class DescribedGpu:
    """One entry of the file."""

    uuid: Annotated[str, name]
    memory_mib: Mib = field(metadata={KEY: "memoryMiB"})
    model: str = "a GPU of a file"
    numa: Annotated[int, Between(-1, 1023)] = -1  # none
    health: str = HEALTHY
    mig: tuple[Instance, ...] | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """The whole file."""

    gpus: tuple[DescribedGpu, ...]


class FileDouble(Backend):
    """Reads the file at each poll."""

    about = "double"

    def __init__(self, file: str) -> None:
        self._file = file
        self._ended = threading.Event()

    def poll(self) -> tuple[Seen, ...]:
        try:
            described = load(Description, Path(self._file).read_text(), self._file)
        except (OSError, UnicodeDecodeError, ConfigError) as problem:
            raise NoDriver(f"the file of the double can't be read: {problem}") from None
        return tuple(self._seen(gpu) for gpu in described.gpus)

    def wait(self, seconds: float) -> tuple[tuple[str, int], ...]:
        self._ended.wait(seconds)
        return ()

    def close(self) -> None:
        self._ended.set()

    def _seen(self, gpu: DescribedGpu) -> Seen:
        numa = gpu.numa if gpu.numa >= 0 else None
        ill = "" if gpu.health == HEALTHY else gpu.health or "the file says so"
        parts = None if gpu.mig is None else tuple((part.uuid, part.memory_mib) for part in gpu.mig)
        return Seen(gpu.uuid, gpu.memory_mib, gpu.model, numa, ill, parts)
