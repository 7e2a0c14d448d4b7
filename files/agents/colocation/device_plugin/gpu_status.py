# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What Prometheus and the status page are told of GPUs: a bar for each, and whose each part is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from colocation.common.metrics import Registry
from colocation.common.status import Table
from colocation.device_plugin.gpus import Catalog, Gpu, parse
from colocation.device_plugin.holders import Held

WIDTH = 32
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
FREE, ILL, MANY = "·", "×", "+"
GPU_COLUMNS = ("gpu", "model", "numa", "memory", "used by", "held", "free", "health")
HOLDER_COLUMNS = ("", "pod", "container", "gpu", "memory")
MIB = 1 << 20
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Part:
    """What one container holds of one GPU. An init container's units are also those of the containers after it."""

    held: Held
    gpu: Gpu
    ids: frozenset[str]

    @property
    def title(self) -> str:
        """Its pod, by UID where only that is known."""
        return f"{self.held.namespace}/{self.held.pod}" if self.held.pod else f"UID {self.held.uid}"


def parts(catalog: Catalog, holders: Sequence[Held]) -> tuple[Part, ...]:
    """What is held, by GPU and then by pod."""
    found: list[Part] = []
    for held in holders:
        ids: dict[str, set[str]] = {}
        for id in held.ids:
            if place := parse(id):
                ids.setdefault(place[0], set()).add(id)
        found += [Part(held, gpu, frozenset(ids[gpu.code])) for gpu in catalog.gpus if gpu.code in ids]
    order = {gpu.uuid: number for number, gpu in enumerate(catalog.gpus)}
    return tuple(sorted(found, key=lambda part: (order[part.gpu.uuid], part.title, part.held.container)))


def shares_of(own: Iterable[Part]) -> list[tuple[str, int]]:
    """Whose the units of a GPU are, each counted once."""
    counted: set[str] = set()
    shares: dict[str, int] = {}
    for part in own:
        shares[part.title] = shares.get(part.title, 0) + len(part.ids - counted)
        counted |= part.ids
    return [(title, units) for title, units in shares.items() if units]


def share_bar(total: int, shares: Sequence[tuple[str, int]], ill: bool, width: int = WIDTH) -> str:
    """A line of so many characters, the holders' letters in proportion; who holds anything is seen."""
    rest = FREE if not ill else ILL
    text, so_far = "", 0
    for letter, units in shares:
        so_far += units
        end = max(-(-so_far * width // max(total, 1)), len(text) + 1)
        text += letter * (min(end, width) - len(text))
    return text + rest * (width - len(text))


def tables(catalog: Catalog, holders: Sequence[Held]) -> tuple[Table, Table]:
    """The GPUs and their holders, for people."""
    held_parts = parts(catalog, holders)
    letters = _letters(held_parts)
    mib = catalog.unit_mib
    rows = []
    for gpu in catalog.gpus:
        shares = shares_of(part for part in held_parts if part.gpu == gpu)
        held = sum(units for _title, units in shares)
        shown = share_bar(catalog.units(gpu), [(letters[title], units) for title, units in shares], bool(gpu.ill))
        free = _gib(max(catalog.units(gpu) - held, 0) * mib)
        health = gpu.ill or "healthy"
        rows.append((gpu.uuid, gpu.model, gpu.numa, _gib(gpu.memory_mib), shown, _gib(held * mib), free, health))
    names = tuple(
        (letters[part.title], part.title, part.held.container, part.gpu.uuid, _gib(len(part.ids) * mib))
        for part in held_parts
    )
    return (
        Table(f"GPUs, units of {mib} MiB", GPU_COLUMNS, tuple(rows)),
        Table("Holders of GPUs", HOLDER_COLUMNS, names),
    )


def _letters(held_parts: Sequence[Part]) -> Mapping[str, str]:
    """A letter for each pod, as long as there are some."""
    titles = dict.fromkeys(part.title for part in held_parts)
    return {title: LETTERS[number] if number < len(LETTERS) else MANY for number, title in enumerate(titles)}


def _gib(mib: int) -> str:
    return f"{mib / 1024:.2f} GiB"


class GpuMetrics:
    """Set after each look."""

    def __init__(self, registry: Registry) -> None:
        by = ("gpu",)
        self._memory = registry.gauge("colocation_gpu_memory_bytes", "Memory of a GPU.", by)
        self._held = registry.gauge("colocation_gpu_held_bytes", "Memory of a GPU that containers hold.", by)
        self._healthy = registry.gauge("colocation_gpu_healthy", "1 while a GPU can be given to containers.", by)
        self.matches = registry.counter(
            "colocation_gpu_matches_total", "Allocations, by how they fitted the plan of the upper scheduler.", ("how",)
        )
        self.answer = registry.histogram(
            "colocation_gpu_answer_seconds", "Time that an answer to the kubelet took.", SECONDS, ("call",)
        )
        self._shown: set[str] = set()

    def show(self, catalog: Catalog, holders: Sequence[Held]) -> None:
        held: dict[str, set[str]] = {}
        for part in parts(catalog, holders):
            held.setdefault(part.gpu.uuid, set()).update(part.ids)
        for gpu in catalog.gpus:
            self._memory.set(gpu.memory_mib * MIB, gpu=gpu.uuid)
            self._held.set(len(held.get(gpu.uuid, ())) * catalog.unit_mib * MIB, gpu=gpu.uuid)
            self._healthy.set(int(not gpu.ill), gpu=gpu.uuid)
        self.forget(keep={gpu.uuid for gpu in catalog.gpus})

    def forget(self, keep: set[str]) -> None:
        """Leave out the GPUs that are no more."""
        for uuid in self._shown - keep:
            for metric in (self._memory, self._held, self._healthy):
                metric.forget(gpu=uuid)
        self._shown = keep
