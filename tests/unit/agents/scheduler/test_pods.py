# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pods as the API writes them: what they ask for, as kube-scheduler adds it up, whose they are, how far they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.scheduler.nodes import read_node
from colocation.scheduler.pods import Amount, Expectation, Said, read_pod

MIB = float(1 << 20)
BLOCKS = {"test.com/colocation-memory": 512 * MIB}


def container(cpu: str = "", memory: str = "", what: str = "requests", **more: Any) -> dict[str, Any]:
    amounts = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return {"resources": {what: amounts}, **more}


def request(spec: dict[str, Any]) -> Said:
    return read_pod({"spec": spec}, BLOCKS).request


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, Said(None, None)),
        ({"containers": [container("100m", "1Mi"), container("200m")]}, Said(0.3, MIB)),
        ({"containers": [container("100m")], "initContainers": [container("1", "2Mi")]}, Said(1, 2 * MIB)),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("900m")],
            },
            Said(1.5, None),
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("2")],
            },
            Said(2.5, None),
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "100m", "memory": "1Mi"}}, Said(1.1, None)),
        ({"containers": [container("1", "1Mi")], "resources": {"requests": {"memory": "9Mi"}}}, Said(1, 9 * MIB)),
        ({"containers": [container("-1", "much"), "what?", {}]}, Said(None, None)),
        ({"containers": "none"}, Said(None, None)),
    ],
)
def test_requests_add_up_as_kube_scheduler_adds_them(spec: dict[str, Any], said: Said) -> None:
    assert request(spec) == pytest.approx(said)


def test_blocks_of_colocation_memory_are_memory() -> None:
    blocks = {"resources": {"requests": {"test.com/colocation-memory": "4"}}}
    assert request({"containers": [blocks]}) == Said(None, 2048 * MIB)
    both = {"resources": {"requests": {"test.com/colocation-memory": "1", "memory": "1Gi"}}}
    assert request({"containers": [both]}) == Said(None, 1024 * MIB)


def blocks(number: int, memory: str = "", **more: Any) -> dict[str, Any]:
    """A container with blocks of 512 MiB, and a limit of memory."""
    amounts = {"test.com/colocation-memory": str(number)} if number else {}
    limits = {**amounts, "memory": memory} if memory else amounts
    return {"resources": {"requests": amounts, "limits": limits}, **more}


def test_blocks_count_for_the_container_that_has_them() -> None:
    other = {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}
    pod = read_pod({"spec": {"containers": [blocks(4, "100Mi"), other]}}, BLOCKS)
    assert (pod.request.memory, pod.limit.memory) == (3072 * MIB, 3072 * MIB)
    assert read_pod({"spec": {"containers": [blocks(4), {}]}}, BLOCKS).limit.memory is None, "the other may use all"
    together = {"containers": [blocks(4), other], "resources": {"requests": {"memory": "1Gi"}}}
    assert request(together).memory == 2048 * MIB, "what is said of all has no blocks"


CONTAINERS = st.builds(blocks, st.integers(0, 3), st.sampled_from(["100Mi", "1Gi"]))
FIRST = st.lists(st.tuples(st.booleans(), CONTAINERS), max_size=4)


@given(st.lists(CONTAINERS, min_size=1, max_size=3), FIRST)
def test_with_init_containers_it_is_the_most_at_any_time(
    running: list[dict[str, Any]], first: list[tuple[bool, dict[str, Any]]]
) -> None:
    def of(one: dict[str, Any]) -> float:
        limits = one["resources"]["limits"]
        said = {"100Mi": 100 * MIB, "1Gi": 1024 * MIB}[limits["memory"]]
        return max(said, 512 * MIB * int(limits.get("test.com/colocation-memory", 0)))

    times, beside = [], 0.0
    for stays, one in first:
        times.append(beside + of(one))
        beside += of(one) if stays else 0.0
    times.append(beside + sum(map(of, running)))
    before = [one | {"restartPolicy": "Always"} if stays else one for stays, one in first]
    pod = read_pod({"spec": {"containers": running, "initContainers": before}}, BLOCKS)
    assert pod.limit.memory == max(times)


def test_one_container_without_a_limit_may_use_all() -> None:
    limited = container("1", "1Mi", "limits")
    assert read_pod({"spec": {"containers": [limited, limited]}}, {}).limit == Said(2, 2 * MIB)
    assert read_pod({"spec": {"containers": [limited, {}]}}, {}).limit == Said(None, None)


@pytest.mark.parametrize(
    ("kind", "name", "labels", "owner", "pinned"),
    [
        ("ReplicaSet", "web-5d4f", {"pod-template-hash": "5d4f"}, "d/ReplicaSet/web", False),
        ("StatefulSet", "db", {}, "d/StatefulSet/db", False),
        ("DaemonSet", "agent", {}, "d/DaemonSet/agent", True),
        ("Node", "n1", {}, "d/Node/n1", True),
    ],
)
def test_owners(kind: str, name: str, labels: dict[str, str], owner: str, pinned: bool) -> None:
    owners = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": True}]
    pod = read_pod({"metadata": {"namespace": "d", "name": "p", "ownerReferences": owners, "labels": labels}}, {})
    assert (pod.owner, pod.pinned) == (owner, pinned)


def test_a_pod_without_an_owner_is_its_own() -> None:
    assert read_pod({"metadata": {"namespace": "d", "name": "p"}}, {}).owner == "d/Pod/p"


@pytest.mark.parametrize(
    ("phase", "started", "finished"),
    [
        ("", False, False),
        ("Pending", False, False),
        ("Running", True, False),
        ("Succeeded", True, True),
        ("Failed", True, True),
    ],
)
def test_phases(phase: str, started: bool, finished: bool) -> None:
    pod = read_pod({"status": {"phase": phase}}, {})
    assert (pod.started, pod.finished) == (started, finished)


@pytest.mark.parametrize(
    ("status", "age"),
    [
        ({"startTime": "1970-01-01T00:01:00Z"}, 40.0),
        (
            {
                "startTime": "later",
                "conditions": [{"type": "PodScheduled", "lastTransitionTime": "1970-01-01T00:00:30Z"}],
            },
            70.0,
        ),
        ({"startTime": "1970-01-01T00:10:00Z"}, 0.0),  # by a clock that is ahead
        ({}, None),
    ],
)
def test_how_old_a_pod_is(status: dict[str, Any], age: float | None) -> None:
    assert read_pod({"status": status}, {}, wall=100.0).age == age


UNKNOWN = Amount(0.25, 200 * MIB)


@pytest.mark.parametrize(
    ("by", "learned", "use"),
    [
        ("request", Amount(9, 9), Amount(1, 200 * MIB)),
        ("limit", Amount(9, 9), Amount(1, 7)),
        ("learned", Amount(9, 9), Amount(9, 9)),
        ("learned", None, Amount(1, 200 * MIB)),
    ],
)
def test_what_a_pod_will_use(by: Any, learned: Amount | None, use: Amount) -> None:
    limits = {"requests": {"cpu": "1"}, "limits": {"memory": "7"}}
    pod = read_pod({"spec": {"containers": [{"resources": limits}]}}, {})
    assert Expectation(by, UNKNOWN).use(pod, learned) == use


FIELDS = st.sampled_from(
    ["metadata", "spec", "status", "containers", "initContainers", "resources", "requests", "cpu", "ownerReferences"]
)
LEAVES = st.sampled_from([None, True, 7, -1.5, float("nan"), "", "1Gi", "x", [None], [[]]])
DOCUMENTS: st.SearchStrategy[Any] = LEAVES
for _depth in range(4):
    DOCUMENTS = LEAVES | st.dictionaries(FIELDS, DOCUMENTS | st.lists(DOCUMENTS, max_size=2), max_size=3)
DOCUMENTS = st.dictionaries(FIELDS, DOCUMENTS, max_size=3)


@given(DOCUMENTS)
def test_nothing_that_is_sent_breaks_the_reading(document: dict[str, Any]) -> None:
    pod = read_pod(document, BLOCKS, wall=0.0)
    assert all(amount is None or amount >= 0 for amount in (*pod.request, *pod.limit))
    node = read_node(document)
    assert all(amount >= 0 for amount in (*node.capacity, *node.allocatable))


def test_a_node() -> None:
    status = {
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "allocatable": {"cpu": "3900m", "memory": "7Gi"},
        "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}},
    }
    node = read_node({"metadata": {"name": "n1"}, "status": status})
    assert (node.name, node.address, node.port) == ("n1", "10.0.0.1", 10251)
    assert (node.capacity, node.allocatable) == (Amount(4, 8192 * MIB), Amount(3.9, 7168 * MIB))
