# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Three ways to give pods GPU memory, on one node each: ours, first-fit, and the amount-matching of the seed's family.

A kubelet serves the pods that come together in an order of its own and names no pod. Ours and first-fit give what the
device IDs say. In the seed's family an upper scheduler books each pod on the fullest GPU that has room, device IDs mean
nothing, and Allocate takes for the pod in question the first pending one, by ASSUME_TIME, whose amount is the number of
IDs: its GPU is what the container sees, whoever it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.gpu_model import (
    MadePod,
    NodeModel,
    gpus,
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod, by the units of its containers."""

    number: int
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)


class Rival(ABC):
    """One node; `failed` are pods that came to nothing though the node had room for them."""

    name = ""

    def __init__(self, count: int, units: int) -> None:
        self.count, self.units = count, units
        self.failed = 0

    @abstractmethod
    def arrive(self, together: Sequence[Arrival], order: Sequence[int]) -> None:
        """Pods come at once; the kubelet serves them in this order."""

    @abstractmethod
    def leave(self, number: int) -> None:
        """A pod ends, if it is there."""

    @property
    @abstractmethod
    def used(self) -> list[int]:
        """Units of each GPU that containers really use."""

    @property
    def packed(self) -> float:
        """The share of the memory that is used rightfully."""
        return sum(min(used, self.units) for used in self.used) / (self.count * self.units)

    @property
    def over(self) -> int:
        """Units that are used of GPUs that don't have them."""
        return sum(max(used - self.units, 0) for used in self.used)


class Ours(Rival):
    """The plugin's own source, served by the model of a kubelet."""

    name = "ours"

    def __init__(self, count: int, units: int) -> None:
        super().__init__(count, units)
        self.model = NodeModel(gpus(count, units))
        self._pods: dict[int, MadePod] = {}

    def arrive(self, together: Sequence[Arrival], order: Sequence[int]) -> None:
        made = [self.model.make((), arrival.sizes) for arrival in together]
        for place in order:
            if self.model.admit(made[place]):
                self.failed += 1
                self.model.remove(made[place])
            else:
                self._pods[together[place].number] = made[place]
        self.model.know()
        self.model.refresh()
        self.model.annotate()

    def leave(self, number: int) -> None:
        if pod := self._pods.pop(number, None):
            self.model.remove(pod)

    @property
    def used(self) -> list[int]:
        counts = dict.fromkeys((gpu.uuid for gpu in self.model.gpus), 0)
        for pod in self._pods.values():
            for granted, ids in zip(pod.granted.values(), pod.held.values(), strict=True):
                counts[granted.environment["NVIDIA_VISIBLE_DEVICES"]] += len(ids)
        return list(counts.values())


class FirstFit(Rival):
    """Each container on the first GPU that has room."""

    name = "first-fit"

    def __init__(self, count: int, units: int) -> None:
        super().__init__(count, units)
        self._used = [0] * count
        self._pods: dict[int, list[tuple[int, int]]] = {}

    def arrive(self, together: Sequence[Arrival], order: Sequence[int]) -> None:
        for place in order:
            arrival = together[place]
            placed: list[tuple[int, int]] = []
            for size in arrival.sizes:
                gpu = next((n for n, used in enumerate(self._used) if self.units - used >= size), None)
                if gpu is None:
                    break
                self._used[gpu] += size
                placed.append((gpu, size))
            self._pods[arrival.number] = placed
            if len(placed) < len(arrival.sizes):
                self.failed += 1
                self.leave(arrival.number)

    def leave(self, number: int) -> None:
        for gpu, size in self._pods.pop(number, ()):
            self._used[gpu] -= size

    @property
    def used(self) -> list[int]:
        return list(self._used)


@dataclass(slots=True)
class _Booked:
    """A pod as the upper scheduler and as the node see it."""

    arrival: Arrival
    gpu: int  # in the books
    assumed: int
    waits: bool = True
    seen: tuple[tuple[int, int], ...] = ()  # what its containers see: GPU and units


class AmountMatching(Rival):
    """The seed's family. A pod of several containers matches no single one of them, and gets no GPU."""

    name = "amount-matching"

    def __init__(self, count: int, units: int) -> None:
        super().__init__(count, units)
        self._pods: dict[int, _Booked] = {}
        self._clock = 0
        self.wrong = 0  # containers that got another GPU than their pod was booked on

    def arrive(self, together: Sequence[Arrival], order: Sequence[int]) -> None:
        for arrival in together:
            self._book(arrival)
        for place in order:
            if booked := self._pods.get(together[place].number):
                self._serve(booked)

    def leave(self, number: int) -> None:
        self._pods.pop(number, None)

    @property
    def used(self) -> list[int]:
        counts = [0] * self.count
        for booked in self._pods.values():
            for gpu, size in booked.seen:
                counts[gpu] += size
        return counts

    def _book(self, arrival: Arrival) -> None:
        books = [0] * self.count
        for booked in self._pods.values():
            books[booked.gpu] += booked.arrival.total
        room = [n for n in range(self.count) if self.units - books[n] >= arrival.total]
        if not room:
            self.failed += 1
            return
        self._clock += 1
        self._pods[arrival.number] = _Booked(arrival, max(room, key=lambda n: books[n]), self._clock)

    def _serve(self, booked: _Booked) -> None:
        for size in booked.arrival.sizes:
            waiting = [one for one in self._pods.values() if one.waits and one.arrival.total == size]
            if not waiting:
                self.failed += 1
                del self._pods[booked.arrival.number]
                return
            found = min(waiting, key=lambda one: one.assumed)
            found.waits = False
            booked.seen = (*booked.seen, (found.gpu, size))
            self.wrong += found.gpu != booked.gpu
