# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What an upper scheduler booked rightly is never refused, whoever the kubelet serves first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.gpu_model import (
    MadePod,
    NodeModel,
    gpus,
)
from colocation.device_plugin.gpu_pods import UUID

UNITS = 16
G0, G1, G2, G3 = (gpu.uuid for gpu in gpus(4, UNITS))
SIZES = (1, 2, 3, 3, 4, 5, 6, 8, 8, 10, 12, 16)


def served_on(model: NodeModel, *sizes: int, wish: str = "", when: int = 0) -> tuple[str, ...]:
    """A new pod is served at once: GPUs of its containers."""
    return admitted(model, model.make((), sizes, wish, when))


def admitted(model: NodeModel, pod: MadePod) -> tuple[str, ...]:
    assert model.admit(pod) == ""
    return tuple(grant.environment[UUID] for grant in pod.granted.values())


def settle(model: NodeModel) -> None:
    model.refresh()
    while model.annotate():
        pass


def test_the_place_of_a_container_of_several_is_taken_and_another_left() -> None:
    model = NodeModel(gpus(4, UNITS))
    for wish, size in ((G0, 8), (G1, 2), (G2, 12), (G3, 16)):
        served_on(model, size, wish=wish)
    settle(model)
    last, several, first = (
        model.make((), sizes, wish, when) for sizes, wish, when in (((8,), G0, 2), ((3, 3, 8), G1, 1), ((3,), G2, 3))
    )
    assert admitted(model, first) == (G1,)  # it could have been the older one
    settle(model)
    assert admitted(model, several) == (G2, G1, G1)
    settle(model)
    assert admitted(model, last) == (G0,)


def test_a_place_that_was_left_is_kept_before_that_is_written() -> None:
    model = NodeModel(gpus(3, UNITS))
    for wish, size in ((G0, 6), (G2, 4)):
        served_on(model, size, wish=wish)
    settle(model)
    one, other, large, small = (
        model.make((), (size,), wish, when) for when, (size, wish) in enumerate(((10, G0), (10, G1), (12, G2), (6, G1)))
    )
    assert admitted(model, other) == (G0,)
    model.refresh()
    assert [admitted(model, pod) for pod in (one, large, small)] == [(G1,), (G2,), (G1,)]


def test_one_without_annotation_takes_nobodys_place() -> None:
    model = NodeModel(gpus(2, UNITS))
    for wish, size in ((G0, 4), (G1, 1)):
        served_on(model, size, wish=wish)
    settle(model)
    booked = [model.make((), (12,), G0, 1), model.make((), (5,), G1, 2)]
    assert served_on(model, 10) == (G1,)
    assert [admitted(model, pod) for pod in booked] == [(G0,), (G1,)]


def test_one_who_failed_leaves_a_place_to_who_was_taken_for_him() -> None:
    model = NodeModel(gpus(2, UNITS))
    first, second = model.make((), (10,), G0, 1), model.make((), (10,))
    assert admitted(model, second) == (G0,)  # taken for the first
    model.remove(second)
    assert served_on(model, 8) == (G1,)
    assert admitted(model, first) == (G0,)


class Day:
    """Pods are booked as the contract of docs/gpu.md says, and served in any order; the agent's hand may be late."""

    def __init__(self, seed: int, most: int, written: float) -> None:
        self.model = NodeModel(gpus(4, UNITS))
        self.chance = random.Random(seed)
        self.most = most  # containers of a pod
        self.written = written  # how often what was read is written in time
        self.clock = 0

    def round(self) -> None:
        for pod in list(self.model.pods):
            if self.chance.random() < 0.35:
                self.model.remove(pod)
        settle(self.model)
        booked = [pod for _try in range(self.chance.randint(1, 6)) for pod in self.book()]
        self.chance.shuffle(booked)
        for pod in booked:
            assert self.model.admit(pod) == ""
            self.work()

    def book(self) -> list[MadePod]:
        """A new pod on the fullest GPU that has room, if one has."""
        sizes = tuple(self.chance.choices(SIZES, k=self.chance.randint(1, self.most)))
        rooms = {gpu.uuid: UNITS for gpu in self.model.gpus}
        for pod in self.model.pods:
            for uuid in pod.annotations[UUID].split(","):
                rooms[uuid] -= pod.total
        enough = [uuid for uuid, room in rooms.items() if room >= sum(sizes)]
        self.clock += 1
        return [self.model.make((), sizes, min(enough, key=lambda uuid: rooms[uuid]), self.clock)] if enough else []

    def work(self) -> None:
        """The agent's, at times."""
        if self.chance.random() < 0.1:
            self.model.restart_plugin()
            self.model.refresh()
        elif self.chance.random() < 0.4:
            self.model.refresh()
            if self.chance.random() < self.written:
                self.model.annotate()


@pytest.mark.parametrize("most", [1, 3])
@given(seed=st.integers(0, 1 << 32), written=st.sampled_from([0.0, 0.5, 1.0]))
def test_who_is_booked_rightly_is_not_refused(most: int, seed: int, written: float) -> None:
    day = Day(seed, most, written)
    for _round in range(30):
        day.round()
