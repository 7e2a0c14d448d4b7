# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The policy: decisions on requests, and books that follow what became of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.containers import (
    GUARANTEED,
    creation,
    pod,
    resources,
)
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, Made, machine
from colocation.common.config import load
from colocation.cri_proxy import calls
from colocation.cri_proxy.bookkeeping import Books, Found, Freed
from colocation.cri_proxy.calls import Edit, Resources
from colocation.cri_proxy.config import PIPE, Config
from colocation.cri_proxy.cpus import of, parse, show
from colocation.cri_proxy.placement import Choice
from colocation.cri_proxy.policy import PENDING, PlacementPolicy

BLOCKS = {"TEST_COM_COLOCATION_MEMORY": "CM-1-1,CM-1-2"}


def policy(text: str = "", name: str | Made = "hygon-c86") -> PlacementPolicy:
    made = PlacementPolicy()
    made.configure(load(Config, text, "f"), machine(name))
    made.stale.clear()
    return made


def run(made: PlacementPolicy, key: int, cpus: float = 1, **more: object) -> Edit:
    """Create a container that the runtime then makes; its id is `c<key>`."""
    edit = made.create(creation(key, resources(cpus), **more))  # type: ignore[arg-type]
    made.observe(calls.ContainerCreated(key, f"c{key}"))
    return edit


def cpus_of(made: PlacementPolicy) -> dict[str, int]:
    return {key: cpus for key, _entry, cpus in made.entries()}


def test_a_container_gets_its_place_and_keeps_it() -> None:
    made = policy()
    assert run(made, 1) == Edit("0-3,32-35")
    assert run(made, 2) == Edit("4-7,36-39")
    assert {target.key: target.cpus for target in made.targets()} == {
        "c1": parse("0-3,32-35"),
        "c2": parse("4-7,36-39"),
    }
    assert made.targets()[0].name == "default/pod1/main"


def test_one_that_is_being_made_counts_and_is_no_target_yet() -> None:
    made = policy()
    made.create(creation(1, resources(1)))
    assert list(cpus_of(made)) == [f"{PENDING}1"] and made.targets() == ()
    assert made.create(creation(2, resources(1))).cpuset_cpus == "4-7,36-39"


@pytest.mark.parametrize(
    "event",
    [
        calls.ContainerStopped("c1"),
        calls.ContainerRemoved("c1"),
        calls.SandboxStopped("sandbox-uid1"),
        calls.SandboxRemoved("sandbox-uid1"),
    ],
)
def test_a_container_that_ends_leaves_its_place(event: calls.Event) -> None:
    made = policy()
    run(made, 1)
    made.observe(event)
    made.observe(event)
    assert made.entries() == ()
    assert run(made, 3).cpuset_cpus == "0-3,32-35"


def test_a_failed_creation_leaves_nothing() -> None:
    made = policy()
    made.create(creation(1, resources(1)))
    made.observe(calls.CreationFailed(1, "no such image", certain=True))
    assert made.entries() == () and made.counts.failed == 1


def test_a_creation_of_which_nobody_heard_is_booked_until_a_list_tells() -> None:
    made = policy()
    made.create(creation(1, resources(1)))
    made.observe(calls.CreationFailed(1, "the connection broke", certain=False))
    assert made.unheard() == {f"{PENDING}1"} and len(made.entries()) == 1
    assert made.forget(made.unheard()) == 1
    assert made.entries() == () and made.unheard() == frozenset()


def test_the_next_try_takes_the_place_of_the_last() -> None:
    made = policy()
    for attempt in range(5):
        edit = run(made, 1, attempt=attempt)
        made.observe(calls.ContainerCreated(1, f"c1.{attempt}"))
        assert edit.cpuset_cpus == "0-3,32-35" and len(made.entries()) == 1


def test_containers_of_a_pod_share_a_numa_node() -> None:
    made = policy()
    run(made, 1)
    own = pod(1)
    assert run(made, 2, where=own, container="sidecar").cpuset_cpus == "4-7,36-39"
    assert run(made, 3, where=own, container="third").cpuset_cpus in ("0-3,32-35", "4-7,36-39")
    assert run(made, 4, where=pod(9)).cpuset_cpus == "8-11,40-43"


def test_a_resize_moves_only_where_it_must() -> None:
    made = policy()
    run(made, 1, 2)
    run(made, 2, 2)
    grown = made.resize(calls.Resize(10, "c1", resources(6)))
    assert grown.cpuset_cpus == "0-3,32-35"
    moved = made.resize(calls.Resize(11, "c1", resources(12)))
    assert moved.cpuset_cpus == "8-15,40-47"  # the emptiest NUMA node
    made.observe(calls.ContainerResized(11, "c1"))
    assert cpus_of(made)["c1"] == parse("8-15,40-47")


def test_a_resize_that_fails_leaves_it_as_it_was() -> None:
    made = policy()
    run(made, 1, 2)
    before = made.entries()
    made.resize(calls.Resize(10, "c1", resources(12)))
    made.observe(calls.ResizeFailed(10, "c1", "no", certain=True))
    assert made.entries() == before


def test_a_resize_of_memory_alone_keeps_the_cpus_asked_for() -> None:
    made = policy()
    run(made, 1, 12)
    assert made.resize(calls.Resize(10, "c1", Resources(memory_limit=1 << 30))) == Edit("0-7,32-39")
    assert made.entries()[0][1].milli == 12_000


def test_a_resize_of_a_container_that_is_not_ours_passes() -> None:
    assert policy().resize(calls.Resize(10, "stranger", resources(12))) == Edit()


def test_what_the_kubelet_pins_itself_is_left_alone() -> None:
    made = policy()
    wanted = Resources(cpu_shares=2048, cpuset_cpus="3")
    assert made.create(creation(1, wanted)) == Edit()
    assert made.entries() == () and made.counts.pinned_by_kubelet == 1


def test_blocks_set_the_memory_limit_and_make_it_batch() -> None:
    made = policy("blocks: {per_numa_node: true}")
    edit = run(made, 1, 0, environment=BLOCKS)
    assert edit == Edit("8-11,40-43", None, 1 << 30)  # on the node of its blocks
    assert made.entries()[0][1].batch
    assert made.resize(calls.Resize(9, "c1", Resources(cpu_shares=102))).memory_limit == 1 << 30


def test_the_kubelets_own_limit_stands_above_blocks() -> None:
    made = policy()
    edit = made.create(creation(1, resources(memory=1 << 20), environment=BLOCKS))
    assert edit.memory_limit is None


def test_limits_come_from_blocks_even_where_nothing_is_placed() -> None:
    made = policy()
    exempt = pod(1, {"cri-resmgr/placement": "none"})
    assert made.create(creation(1, resources(), exempt, environment=BLOCKS)) == Edit(memory_limit=1 << 30)
    assert made.entries() == ()


def test_reserved_namespaces_run_on_the_systems_cpus() -> None:
    text = '{policy: {ReservedResources: {CPU: "cpuset:0-1"}, topology-aware: {ReservedPoolNamespaces: [kube-system]}}}'
    made = policy(text)
    assert run(made, 1, where=pod(1, namespace="kube-system")) == Edit("0-1")
    assert run(made, 2).cpuset_cpus == "4-7,36-39"  # the CCX that lost two CPUs is fuller by its size


def test_those_on_the_systems_cpus_are_kept_there() -> None:
    text = '{policy: {ReservedResources: {CPU: "cpuset:0-1"}, topology-aware: {ReservedPoolNamespaces: [kube-system]}}}'
    made = policy(text)
    system = pod(1, namespace="kube-system")
    run(made, 1, where=system)
    run(made, 2)
    free = made._books.ledger.loads if made._books is not None else None
    assert cpus_of(made)["c1"] == parse("0-1") and free is not None and sum(free.shared) == 1  # it books no place
    assert {target.key: target.cpus for target in made.targets()}["c1"] == parse("0-1")
    assert {key for key, _entry, _said in made.records()} == {"c1", "c2"}
    made.stale.clear()
    assert made.rebalance() == []
    assert made.resize(calls.Resize(10, "c1", resources(12))) == Edit("0-1")
    anywhere = {key: replace(one, cpus=machine("hygon-c86").online) for key, one in found(made).items() if key == "c1"}
    anew = policy(text)
    assert anew.adopt(anywhere) == ["c1"] and cpus_of(anew) == {"c1": parse("0-1")}
    made.configure(load(Config, "", "f"), machine("hygon-c86"))  # its namespace is only exempt now
    assert made.to_free() == {"c1": Freed("kube-system/pod1/main", mems=False)} and "c1" not in cpus_of(made)
    anew.observe(calls.ContainerStopped("c1"))
    assert anew.targets() == ()


def test_who_had_a_place_by_the_record_and_is_exempt_now_gets_all_cpus_back() -> None:
    made = policy()
    run(made, 1)
    run(made, 2)
    running = found(made, hints=True)
    strangers = found(made)
    text = "placement: {exempt_namespaces: [default]}"
    assert policy(text).adopt(strangers) == []
    anew = policy(text)
    assert anew.adopt(running) == [] and set(anew.to_free()) == {"c1", "c2"} and anew.stale.is_set()
    assert not PlacementPolicy().adopt(running)
    unknown = PlacementPolicy()
    unknown.configure(PIPE, machine("hygon-c86"))
    assert unknown.adopt(running) == [] and unknown.to_free() == {}


def test_who_is_adopted_is_not_freed_any_more() -> None:
    made = policy()
    run(made, 1)
    anew = policy()
    anew.free({"c1": Freed("default/pod1/main", mems=False)})
    assert anew.adopt(found(made)) == ["c1"] and anew.to_free() == {}


def test_blocks_of_memory_count_for_its_nodes() -> None:
    text = "{policy: {topology-aware: {PinMemory: true}}, blocks: {mib: 65536}}"
    made = policy(text)
    assert run(made, 1, 1, environment=BLOCKS).cpuset_mems == "0-1"  # 128 GiB on nodes of 64
    assert {target.key: show(target.mems) for target in made.targets()} == {"c1": "0-1"}


def test_who_is_freed_has_the_memory_of_all_nodes_too() -> None:
    made = policy("{policy: {topology-aware: {PinMemory: true}}}")
    assert run(made, 1).cpuset_mems == "0"
    made.configure(load(Config, "policy: {Active: none}", "f"), machine("hygon-c86"))
    (target,) = made.targets()
    assert target.mems == of(machine("hygon-c86").memory_kib) and target.mems.bit_count() == 4


def test_who_is_freed_keeps_memory_nodes_that_somebody_else_chose() -> None:
    """The kubelet's Memory Manager does, and does not put them back."""
    made = policy()
    run(made, 1)
    running = found(made, hints=True)
    made.configure(load(Config, "policy: {Active: none}", "f"), machine("hygon-c86"))
    exempting = policy("placement: {exempt_namespaces: [default]}")
    exempting.adopt(running)
    assert [one.mems for books in (made, exempting) for one in books.targets()] == [0, 0]


def test_memory_follows_where_that_is_wanted() -> None:
    made = policy("{policy: {topology-aware: {PinMemory: true}}}")
    assert run(made, 1) == Edit("0-3,32-35", "0")
    wanted = resources(1, memory=100 << 30)
    assert made.create(creation(2, wanted)).cpuset_mems == "0-1"


def test_exclusive_containers_drive_others_off_and_let_them_back() -> None:
    made = policy("{placement: {exclusive: true}}", Made(cores=4))
    assert run(made, 1).cpuset_cpus == "0-3"
    made.stale.clear()
    wanted = resources(2, 2)
    assert made.create(creation(2, wanted, pod(2, parent=GUARANTEED))).cpuset_cpus == "0-1"
    made.observe(calls.ContainerCreated(2, "c2"))
    assert made.stale.is_set() and cpus_of(made) == {"c1": parse("2-3"), "c2": parse("0-1")}
    made.stale.clear()
    made.observe(calls.ContainerStopped("c2"))
    assert made.stale.is_set() and cpus_of(made) == {"c1": parse("0-3")}


def test_without_a_policy_calls_pass() -> None:
    made = PlacementPolicy()
    assert made.create(creation(1, resources(1))) == Edit()
    assert made.resize(calls.Resize(1, "c", resources(1))) == Edit()
    made.observe(calls.ContainerStopped("c"))
    assert (made.entries(), made.targets(), made.adopt({}), made.rebalance(), made.forget(["c"])) == ((), (), [], [], 0)


def test_switching_the_policy_off_gives_all_cpus_back() -> None:
    made = policy()
    run(made, 1)
    made.create(creation(2, resources(1)))
    made.configure(load(Config, "policy: {Active: none}", "f"), machine("hygon-c86"))
    assert made.entries() == ()
    (target,) = made.targets()
    assert (target.key, target.cpus) == ("c1", machine("hygon-c86").online)
    made.freed(["c1"])
    assert made.targets() == ()


def test_another_configuration_moves_only_those_that_may_not_stay() -> None:
    made = policy()
    run(made, 1)
    run(made, 2)
    made.configure(load(Config, 'policy: {AvailableResources: {CPU: "cpuset:4-63"}}', "f"), machine("hygon-c86"))
    after = cpus_of(made)
    assert after["c2"] == parse("4-7,36-39")
    assert not after["c1"] & parse("0-3") and made.stale.is_set()


def test_cpus_that_went_offline_are_left() -> None:
    made = policy(name=Made(ccxs=2, cores=4))
    run(made, 1)
    made.configure(load(Config, "", "f"), machine(Made(ccxs=2, cores=4, offline="0-3")))
    assert cpus_of(made) == {"c1": parse("4-7")}


def test_where_no_cpu_is_left_containers_run_anywhere() -> None:
    made = policy('policy: {ReservedResources: {CPU: "cpuset:0"}}', "one-cpu")
    assert run(made, 1) == Edit() and made.counts.nowhere == 1


def test_balancing_moves_a_few_to_what_became_empty() -> None:
    made = policy("placement: {rebalance_moves: 2}", Made(ccxs=2, cores=4))
    for key in range(1, 7):
        run(made, key, 1)
    for key in (2, 4, 6):
        made.observe(calls.ContainerStopped(f"c{key}"))
    assert len(made.rebalance()) == 1 and made.stale.is_set()
    assert made.rebalance() == []
    assert sorted(cpus.bit_count() for cpus in cpus_of(made).values()) == [4, 4, 4]
    assert len(set(cpus_of(made).values())) == 2


def found(made: PlacementPolicy, hints: bool = False) -> dict[str, Found]:
    """What a proxy that starts anew would find running."""
    cpus = cpus_of(made)
    return {
        key: Found(entry.who, said, cpus[key], Choice(entry.shape, entry.ccxs, 0, entry.alone) if hints else None)
        for key, entry, said in made.records()
    }


STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 80_000), st.integers(0, 5), st.booleans()), min_size=1, max_size=40
)


def play(made: PlacementPolicy, steps: list[tuple[int, int, int, bool]], alive: Callable[[], None]) -> None:
    """Containers come, are resized, fail and go."""
    for number, (kind, milli, which, batch) in enumerate(steps):
        owner = pod(which, parent=GUARANTEED if kind == 4 else "/kubepods/burstable/pod")
        wanted = resources(milli / 1000, milli / 1000 if kind == 4 else 0)
        keys = [key for key, _entry, _said in made.records()]
        if kind < 6 or not keys:
            made.create(creation(number, wanted, owner, f"n{number}", environment=BLOCKS if batch else {}))
            if kind == 5:
                made.observe(calls.CreationFailed(number, "no", certain=True))
            else:
                made.observe(calls.ContainerCreated(number, f"c{number}"))
        elif kind == 6:
            made.resize(calls.Resize(number, keys[which % len(keys)], wanted))
            result = calls.ResizeFailed(number, keys[which % len(keys)], "no", True) if batch else None
            made.observe(result or calls.ContainerResized(number, keys[which % len(keys)]))
        elif kind == 7:
            made.observe(calls.SandboxStopped(f"sandbox-uid{which}"))
        elif kind == 8:
            made.rebalance()
        else:
            made.observe(calls.ContainerStopped(keys[which % len(keys)]))
        alive()


@given(st.sampled_from(sorted(MACHINES)), STEPS)
def test_books_made_from_what_runs_are_the_books_that_were_kept(
    name: str, steps: list[tuple[int, int, int, bool]]
) -> None:
    made = policy(name=name)
    play(made, steps, lambda: None)
    anew = policy(name=name)
    anew.adopt(found(made))
    assert {key: (e.ccxs, e.milli, e.batch) for key, e, _c in anew.entries()} == {
        key: (e.ccxs, e.milli, e.batch) for key, e, _c in made.entries()
    }
    assert cpus_of(anew) == cpus_of(made)


@given(st.sampled_from(sorted(MACHINES)), STEPS)
def test_no_cpu_is_held_twice_nor_by_one_that_is_gone(name: str, steps: list[tuple[int, int, int, bool]]) -> None:
    made = policy("placement: {exclusive: true}", name)

    def check() -> None:
        alone = [entry.alone for _key, entry, _cpus in made.entries() if entry.alone]
        held = 0
        for cpus in alone:
            assert not cpus & held
            held |= cpus
        assert all(cpus and (entry.alone or not cpus & held) for _key, entry, cpus in made.entries())

    play(made, steps, check)
    anew = policy("placement: {exclusive: true}", name)
    anew.adopt(found(made, hints=True))
    assert cpus_of(anew) == cpus_of(made)
    for key, _entry, _cpus in made.entries():
        made.observe(calls.ContainerStopped(key))
    assert made.entries() == ()
    fresh = Books(load(Config, "", "f"), machine(name)).ledger.loads
    assert made._books is not None and made._books.ledger.loads == fresh


def test_adoption_places_what_was_never_placed() -> None:
    made = policy()
    run(made, 1)
    running = found(made)["c1"]
    anywhere = Found(running.who, running.said, machine("hygon-c86").online)
    anew = policy()
    assert anew.adopt({"c1": anywhere}) == ["c1"]
    assert cpus_of(anew) == {"c1": parse("0-3,32-35")} and anew.stale.is_set()


def test_adoption_leaves_one_that_is_being_made_to_its_request() -> None:
    made = policy()
    run(made, 1)
    anew = policy()
    anew.create(creation(7, resources(1), pod(1)))
    assert anew.adopt(found(made)) == []
    assert len(anew.entries()) == 1


def test_annotations_that_say_nothing_are_counted() -> None:
    made = policy()
    run(made, 1, where=pod(1, {"cri-resmgr/placement": "somewhere"}))
    assert made.counts.mistaken == 1 and len(made.entries()) == 1
