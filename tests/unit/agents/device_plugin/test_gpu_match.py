# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whom an allocation is for, against a model that knows the truth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings, target
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.gpu_model import (
    RESOURCE,
    UNIT,
    MadePod,
    NodeModel,
    gpus,
)
from colocation.device_plugin.devices import Refused
from colocation.device_plugin.gpu_match import booked, candidates, match, planned
from colocation.device_plugin.gpu_pods import ASSIGNED, UUID, Pod, Want

G0, G1, G2, G3 = (gpu.uuid for gpu in gpus(4, 16))


def pod(name: str, *units: int, wish: str = "", assumed: int = 9, **more: bool) -> Pod:
    wants = tuple(Want(f"c{number}", size) for number, size in enumerate(units))
    return replace(Pod(name, "n", name, wants, wish, "false", assumed, "2024"), **more)


@pytest.mark.parametrize(
    ("pods", "gpu", "expected", "swapped"),
    [
        ([pod("a", 5), pod("b", 6)], G0, "a", False),
        ([pod("a", 5, wish=G1, assumed=1), pod("b", 5, wish=G0, assumed=2)], G0, "b", False),
        ([pod("a", 5, wish=G0, assumed=2), pod("b", 5, wish=G0, assumed=1)], G0, "b", False),
        ([pod("a", 5, wish=G1, assumed=1), pod("b", 5)], G0, "b", False),
        ([pod("a", 5, wish=G1, assumed=1), pod("b", 5, wish=G2, assumed=2)], G0, "a", True),
        ([pod("a", 5, wish=G0, assumed=1, pending=False), pod("b", 5)], G0, "b", False),
        ([pod("a", 5, wish=G0, assumed=1, ending=True), pod("b", 5)], G0, "b", False),
        ([pod("a", 5, wish=G0, assumed=1, pending=False)], G0, "a", False),
        ([pod("a", 7, 5, wish=G0), pod("b", 5)], G0, "b", False),
        ([pod("a", 7, 5, wish=G0)], G0, "a", False),
    ],
)
def test_whom(pods: list[Pod], gpu: str, expected: str, swapped: bool) -> None:
    found = match(candidates(pods, (), (), 5), {gpu}, 5, RESOURCE)
    assert (found.candidate.pod.uid, found.swapped) == (expected, swapped)


def test_the_plan_is_in_order_of_time() -> None:
    pods = [pod("c", 5), pod("b", 5, wish=G0, assumed=2), pod("a", 5, wish=G1, assumed=1), pod("d", 6)]
    assert [one.pod.uid for one in planned(candidates(pods, (), (), 5))] == ["a", "b", "c"]
    assert [one.pod.uid for one in planned(candidates(pods, (), {("a", "c0")}, 5))] == ["b", "c", "a"]
    assert [one.pod.uid for one in planned(candidates(pods, {("a", "c0")}, (), 5))] == ["b", "c"]


def test_booked_is_what_waits() -> None:
    pods = [
        pod("a", 5, 6, wish=G0),
        pod("b", 7, wish=G0),
        pod("c", 8),
        pod("d", 9, wish=G1, pending=False),
        pod("e", 9, wish=G1, ending=True),
        replace(pod("f", 4, wish=G2), wants=(Want("i", 4, passing=True), Want("c", 3))),
    ]
    assert booked(pods, (), ()) == {G0: 18, G2: 4}
    assert booked(pods, {("a", "c0")}, {("b", "c0"), ("f", "i")}) == {G0: 6, G2: 3}


def test_nobody_could_be_meant() -> None:
    pods = [pod("a", 5), pod("b", 6)]
    with pytest.raises(Refused, match="no pod of this node waits for 7 units of doslab.io/gpu-memory"):
        match(candidates(pods, (), (), 7), {G0}, 7, RESOURCE)
    with pytest.raises(Refused):
        match(candidates(pods, {("a", "c0")}, (), 5), {G0}, 5, RESOURCE)


def test_what_is_not_certain_is_not_said() -> None:
    alone, part = pod("a", 5), pod("b", 5, 7)
    assert match(candidates([alone], (), (), 5), {G0}, 5, RESOURCE).total == 5
    assert match(candidates([part], (), (), 5), {G0}, 5, RESOURCE).total == 12
    assert match(candidates([alone, part], (), (), 5), {G0}, 5, RESOURCE).total is None
    assert match(candidates([alone, part], (), {("a", "c0")}, 5), {G0}, 5, RESOURCE).total is None
    assert match(candidates([alone, part], {("a", "c0")}, (), 5), {G0}, 5, RESOURCE).total == 12


@pytest.mark.parametrize("size", [5, 16])
def test_plans_are_kept_whatever_the_kubelets_order(size: int) -> None:
    model = NodeModel(gpus(4, 16))
    made = [model.make((), (size,), wish, when) for when, wish in enumerate((G2, G0, G3, G1))]
    for one in reversed(made):
        assert model.admit(one) == ""
    model.refresh()
    for _round in range(3):
        model.annotate()
    assert sorted(one.annotations[UUID] for one in made) == [G0, G1, G2, G3]
    assert all(one.annotations[ASSIGNED] == "true" for one in made)


def test_who_got_anothers_place_leaves_his_own() -> None:
    """Also to a plugin that was killed in between: the plan stands in the annotations."""
    model = NodeModel(gpus(4, 16))
    first, second = model.make((), (10,), G1, 1), model.make((), (10,), G3, 2)
    assert model.admit(second) == ""
    assert second.granted["c0"].environment[UUID] == G1
    model.refresh()
    model.annotate()
    assert (first.annotations[UUID], first.annotations[ASSIGNED]) == (G3, "false")
    model.restart_plugin()
    model.refresh()
    assert model.admit(first) == ""
    assert first.granted["c0"].environment[UUID] == G3


def test_one_who_failed_takes_nobodys_place() -> None:
    """Both are equal; the plugin may take one for the other, who then fails."""
    model = NodeModel(gpus(2, 16))
    first, second = model.make((), (10,)), model.make((), (10,))
    assert model.admit(second) == ""
    second.phase = "Failed"
    second.held.clear()
    model.know()
    assert model.admit(first) == ""


def test_the_kubelets_record_makes_certain_what_was_not() -> None:
    model = NodeModel(gpus(2, 32))
    pair, alone = model.make((), (10, 20)), model.make((), (10,))
    for one in (pair, alone):
        assert model.admit(one) == ""
    key = "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD"
    assert key not in pair.granted["c0"].environment  # it could have been the other one
    assert pair.granted["c1"].environment[key] == str(30 * UNIT)
    assert alone.granted["c0"].environment[key] == str(10 * UNIT)


def test_an_api_that_does_not_answer() -> None:
    model = NodeModel(gpus(2, 16))
    one = model.make((), (10,), G1, 1)
    model.cluster.answers = False
    assert model.admit(one) == ""
    environment = one.granted["c0"].environment
    assert environment[UUID] == G1
    assert "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD" not in environment


def test_an_api_that_does_not_answer_and_a_watch_that_lags() -> None:
    """The kubelet asks once and fails the pod if it is refused, so IDs alone decide."""
    model = NodeModel(gpus(2, 16))
    one = model.make((), (10,), G1, 1)
    model.cluster.pods, model.cluster.answers = (), False
    assert model.admit(one) == ""
    assert "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD" not in one.granted["c0"].environment
    model.cluster.now, model.cluster.answers = (), True
    assert "no pod of this node waits for 4 units" in model.admit(MadePod(9, (), (4,)))


def test_a_watch_that_lags_costs_nobody_anything() -> None:
    model = NodeModel(gpus(2, 16))
    model.make((), (3,))
    one = model.make((), (10,), G1, 1)
    model.cluster.pods = model.cluster.pods[:1]
    assert model.admit(one) == ""
    assert one.granted["c0"].environment[UUID] == G1


def test_an_init_container_goes_where_the_others_have_room() -> None:
    model = NodeModel(gpus(2, 16))
    model.admit(model.make((), (11,)))
    one = model.make((4,), (6,))
    assert model.admit(one) == ""
    assert {model.gpu_of(id).uuid for ids in one.held.values() for id in ids} == {G1}


def test_an_old_annotation_or_a_pod_like_it_leads_an_init_container_nowhere() -> None:
    model = NodeModel(gpus(2, 16))
    model.admit(model.make((), (11,)))  # G0 has room for the init container, and not for what follows it
    led, like = model.make((4,), (6,), G0, 2), model.make((4,), (4,), G0, 1)
    assert model.admit(led) == ""
    assert {model.gpu_of(id).uuid for ids in led.held.values() for id in ids} == {G1}
    assert model.admit(like) == ""


def test_what_a_sidecar_has_needs_no_room_beside_an_init_container() -> None:
    model = NodeModel(gpus(2, 16))
    for size in (8, 13):
        assert model.admit(model.make((), (size,))) == ""
    free = set(model.free())
    waits = Pod("u", "n", "a", (Want("sidecar", 3), Want("init", 3, passing=True), Want("main", 4)))
    model.cluster.now = model.cluster.pods = (waits,)
    for size in (3, 3):
        given = model.source.prefer(sorted(free), (), size)
        model.source.grant(given)
        free -= set(given)
    assert model.source.prefer(sorted({*free, *given}), sorted(given), 4)


class Lifetimes(RuleBasedStateMachine):
    """Pods come, are served in any order, end and fail; plugins are killed; the watch lags; annotations lie."""

    def __init__(self) -> None:
        super().__init__()
        self.model = NodeModel(gpus(3, 12))
        self.clock = 0

    @rule(
        sizes=st.lists(st.sampled_from([1, 2, 3, 3, 4, 6, 12]), min_size=1, max_size=3),
        init=st.lists(st.sampled_from([2, 3, 5]), max_size=1),
        wish=st.sampled_from(["", G0, G1, G2, "GPU-of-another-node"]),
    )
    def make(self, sizes: list[int], init: list[int], wish: str) -> None:
        self.clock += 1
        self.model.make(tuple(init), tuple(sizes), wish, self.clock)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.waiting()))
        rooms = self.rooms()
        said = self.model.admit(pod)
        if said:
            self.refused_rightly(pod, rooms, said)
        else:
            self.served_rightly(pod)

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data(), phase=st.sampled_from(["", "Failed", "Succeeded"]))
    def end(self, data: st.DataObject, phase: str) -> None:
        pod = data.draw(st.sampled_from(self.model.pods))
        if phase:
            pod.phase = phase
            pod.held.clear()
            self.model.know()
        else:
            self.model.remove(pod)

    @rule()
    def kill_the_plugin(self) -> None:
        self.model.restart_plugin()

    @rule()
    def look(self) -> None:
        self.model.refresh()

    @rule()
    def write(self) -> None:
        self.model.annotate()

    @rule()
    def lag(self) -> None:
        self.model.cluster.pods = ()

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data(), wish=st.sampled_from(["", G0, G1]))
    def meddle(self, data: st.DataObject, wish: str) -> None:
        """An upper scheduler that died and came again annotates what it annotated before."""
        pod = data.draw(st.sampled_from(self.model.pods))
        pod.annotations = {UUID: wish, ASSIGNED: "false"} if wish else {}
        self.model.know()

    @invariant()
    def nothing_is_given_twice(self) -> None:
        held = [id for pod in self.model.pods for name, ids in self.lasting(pod) for id in ids]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        """In the end annotations say what is, after few rounds."""
        for _round in range(3):
            self.model.annotate()
        assert self.model.annotate() == 0
        for pod in self.model.pods:
            if pod.held:
                uuids = {self.model.gpu_of(id).uuid for ids in pod.held.values() for id in ids}
                assert set(pod.annotations[UUID].split(",")) == uuids
                assert pod.annotations[ASSIGNED] == "true"
        target(float(sum(bool(pod.held) for pod in self.model.pods)))

    def waiting(self) -> list[MadePod]:
        return [pod for pod in self.model.pods if pod.phase == "Pending"]

    def rooms(self) -> dict[str, int]:
        rooms = {gpu.uuid: 0 for gpu in self.model.gpus}
        for id in self.model.free():
            rooms[self.model.gpu_of(id).uuid] += 1
        return rooms

    @staticmethod
    def lasting(pod: MadePod) -> list[tuple[str, tuple[str, ...]]]:
        """What is held by containers that run side by side."""
        return [(name, pod.held[name]) for name, _size, init in pod.containers if not init and name in pod.held]

    def refused_rightly(self, pod: MadePod, rooms: dict[str, int], said: str) -> None:
        """Whoever fits on one GPU as a whole is served, whatever is annotated and whoever else waits."""
        assert "no pod of this node waits" not in said
        assert max(rooms.values()) < pod.total, said

    def served_rightly(self, pod: MadePod) -> None:
        for name, size, _init in pod.containers:
            ids, environment = pod.held[name], pod.granted[name].environment
            (uuid,) = {self.model.gpu_of(id).uuid for id in ids}
            assert len(set(ids)) == size
            assert environment["NVIDIA_VISIBLE_DEVICES"] == environment["DOSLAB_IO_GPU_UUID"] == uuid
            assert environment["DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER"] == str(size * UNIT)
            assert environment["DOSLAB_IO_GPU_RESOURCE_TOTAL"] == str(12 * UNIT)
            of_pod = environment.get("DOSLAB_IO_GPU_RESOURCE_USED_BY_POD")
            assert of_pod in (None, str(pod.total * UNIT))
            others = [other for other in self.model.pods if other is not pod and other.phase in ("Pending", "Running")]
            if all(other.total == pod.total for other in others):
                assert of_pod is not None


TestLifetimes = Lifetimes.TestCase
TestLifetimes.settings = settings(max_examples=settings.default.max_examples * 2, stateful_step_count=30)
