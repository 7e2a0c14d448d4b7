# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the API says of pods and nodes: who looks after a pod, what else it may have, where else it has room."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.migrate import Room, Taint, Wish, fits, places, rooms, taken
from colocation.device_plugin.reclaim import Kind
from colocation.device_plugin.reclaim_pods import PodFacts, Toleration, amount, facts, is_of

RESOURCE = "test.com/colocation-memory"


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": "2026-01-01T00:00:10Z"}, "spec": spec, "status": {"phase": "Running"}}


def owned(kind: str, **metadata: Any) -> dict[str, Any]:
    document = pod()
    document["metadata"] |= {"ownerReferences": [{"kind": kind, "controller": True}], **metadata}
    return document


def container(**limits: str) -> dict[str, Any]:
    named = {RESOURCE if name == "blocks" else name: value for name, value in limits.items()}
    return {"name": "c", "resources": {"limits": named}}


@pytest.mark.parametrize(
    ("document", "kind", "movable"),
    [
        (pod(), Kind.UNMANAGED, False),
        (owned("ReplicaSet"), Kind.MANAGED, True),
        (owned("Job"), Kind.MANAGED, True),
        (owned("DaemonSet"), Kind.MANAGED, False),
        (owned("Node"), Kind.STATIC, False),
        (owned("ReplicaSet", annotations={"kubernetes.io/config.mirror": "x"}), Kind.STATIC, False),
    ],
)
def test_who_looks_after_a_pod(document: dict[str, Any], kind: Kind, movable: bool) -> None:
    found = facts(document, RESOURCE)
    assert (found.kind, found.movable) == (kind, movable)


@pytest.mark.parametrize(
    ("metadata", "uid", "same"),
    [
        ({"uid": "a-b"}, "a-b", True),
        ({"uid": "a-c"}, "a-b", False),
        ({"uid": "a-b", "annotations": {"kubernetes.io/config.mirror": "7b19"}}, "7b19", True),  # a static pod
        ({}, "a-b", False),
    ],
)
def test_whose_document_it_is(metadata: dict[str, Any], uid: str, same: bool) -> None:
    assert is_of({"metadata": metadata}, uid) is same


def test_a_pod_that_must_stand_on_certain_nodes_is_not_moved() -> None:
    document = owned("ReplicaSet")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    document["spec"]["affinity"] = {"nodeAffinity": required}
    assert not facts(document, RESOURCE).movable


def test_all_else_that_counts() -> None:
    document = pod(
        priority=7,
        terminationGracePeriodSeconds=5,
        nodeSelector={"b": "2", "a": "1"},
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
    )
    assert facts(document, RESOURCE) == PodFacts(
        7,
        1767225610.0,
        Kind.UNMANAGED,
        False,
        5.0,
        0,
        (("a", "1"), ("b", "2")),
        (Toleration("", None, ""), Toleration("k", "v", "NoSchedule")),
    )


@pytest.mark.parametrize(
    ("spec", "others"),
    [
        ({"containers": [container(blocks="3")]}, 0),
        ({"containers": [container(blocks="3", memory="1Gi")]}, 0),  # the blocks say what it may have
        ({"containers": [container(blocks="3"), container(memory="128Mi"), container(cpu="1")]}, 128 << 20),
        ({"containers": [container(blocks="3")], "initContainers": [container(memory="1k")]}, 1000),
        (
            {
                "containers": [container(blocks="3"), container(memory="2k")],
                "initContainers": [container(memory="1k"), {**container(memory="5k"), "restartPolicy": "Always"}],
            },
            7000,
        ),
    ],
)
def test_what_containers_without_blocks_may_have(spec: dict[str, Any], others: int) -> None:
    assert facts(pod(**spec), RESOURCE).others == others


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("128Mi", 128 << 20),
        ("1.5Gi", 3 << 29),
        ("1k", 1000),
        ("1500m", 2),
        ("1e3", 1000),
        ("12E", 12 * 10**18),
        ("", None),
        ("many", None),
        ("-1", None),
        ("1e999", None),
    ],
)
def test_quantities(text: str, number: int | None) -> None:
    assert amount(text) == number


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "spec", "containers", "resources", "limits", "memory", "tolerations", "status",
                         "ownerReferences", "controller", "nodeSelector", "taints", "conditions", "allocatable"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), anything))
def test_documents_of_any_shape_do_no_harm(document: dict[str, Any]) -> None:
    assert isinstance(facts(document, RESOURCE), PodFacts)
    assert rooms([document], RESOURCE, "own") == ()
    assert taken([document], RESOURCE) >= 0


NODE: dict[str, Any] = {
    "metadata": {"name": "worker2", "labels": {"disk": "ssd"}},
    "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"effect": "PreferNoSchedule"}]},
    "status": {"allocatable": {RESOURCE: "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip
ROOM = Room("worker2", 10, {"disk": "ssd"}, (Taint("gpu", "yes", "NoSchedule"),))


def node(**changes: Any) -> dict[str, Any]:
    document = copy.deepcopy(NODE)
    for path, value in changes.items():
        first, _line, second = path.partition("_")
        document[first][second] = value
    return document


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([NODE], ["worker2"]),
        ([node(metadata_name="own")], []),
        ([node(spec_unschedulable=True)], []),
        ([node(status_allocatable={})], []),
        ([node(status_allocatable={RESOURCE: "0"})], []),
        ([node(status_conditions=[{"type": "Ready", "status": "Unknown"}])], []),
        ([NODE, node(metadata_name="w3", status_allocatable={RESOURCE: "11"})], ["w3", "worker2"]),
    ],
)
def test_which_nodes_offer_blocks(nodes: list[dict[str, Any]], found: list[str]) -> None:
    assert [room.node for room in rooms(nodes, RESOURCE, "own")] == found
    if nodes == [NODE]:
        assert rooms(nodes, RESOURCE, "own") == (ROOM,)


def test_pods_that_have_ended_hold_no_blocks() -> None:
    spec = {"containers": [container(blocks="3"), container(memory="1Gi")], "initContainers": [container(blocks="4")]}
    ended = pod(**spec)
    ended["status"]["phase"] = "Succeeded"
    assert taken([pod(**spec), ended], RESOURCE) == 4


MOVABLE = PodFacts(movable=True, tolerations=(Toleration("gpu", "yes", "NoSchedule"),))


@pytest.mark.parametrize(
    ("pod_facts", "good"),
    [
        (MOVABLE, True),
        (PodFacts(movable=True), False),
        (PodFacts(movable=False, tolerations=MOVABLE.tolerations), False),
        (PodFacts(movable=True, tolerations=(Toleration("gpu", "no", ""),)), False),
        (PodFacts(movable=True, tolerations=(Toleration("gpu", None, "NoExecute"),)), False),
        (PodFacts(movable=True, tolerations=(Toleration("", None, ""),)), True),
        (PodFacts(movable=True, tolerations=MOVABLE.tolerations, selector=(("disk", "ssd"),)), True),
        (PodFacts(movable=True, tolerations=MOVABLE.tolerations, selector=(("disk", "hdd"),)), False),
    ],
)
def test_where_a_pod_may_stand(pod_facts: PodFacts, good: bool) -> None:
    assert fits(pod_facts, ROOM) is good


wishes = st.lists(st.builds(Wish, st.uuids().map(str), st.integers(1, 6), st.just(PodFacts(movable=True))), max_size=6)
free = st.lists(
    st.builds(Room, st.sampled_from(["w2", "w3", "w4"]), st.integers(1, 10), st.just({}), st.just(())),
    max_size=3,
    unique_by=lambda room: room.node,
)


@given(wishes, free)
def test_no_room_is_given_twice_and_none_is_left_unused(wanted: list[Wish], there: list[Room]) -> None:
    found = places(wanted, there)
    left = {room.node: room.blocks for room in there}
    for wish in wanted:
        if wish.uid in found:
            left[found[wish.uid]] -= wish.blocks
    assert all(blocks >= 0 for blocks in left.values())
    assert all(wish.blocks > max(left.values(), default=0) for wish in wanted if wish.uid not in found)
