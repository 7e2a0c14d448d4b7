# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Owners from managedFields, and what pods hold."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import (
    FIELD_MANAGER,
    extended_resources,
    holders,
    patched_by_us,
    pod_requests,
)

GPU = "mock.com/gpu"
HEARTBEAT: dict[str, Any] = {"f:conditions": {'k:{"type":"Ready"}': {"f:lastHeartbeatTime": {}}}}


def node(capacity: Any = None, allocatable: Any = None, **managers: dict[str, Any]) -> dict[str, Any]:
    fields = [{"manager": name, "fieldsV1": {"f:status": status}} for name, status in managers.items()]
    return {"metadata": {"managedFields": fields}, "status": {"capacity": capacity, "allocatable": allocatable}}


def wrote(name: str) -> dict[str, Any]:
    return {"f:capacity": {f"f:{name}": {}}}


@pytest.mark.parametrize(
    ("managers", "owner", "manager"),
    [
        ({}, "unknown", ""),
        ({"kubelet": wrote(GPU)}, "device_plugin", "kubelet"),
        ({"k3s": wrote(GPU) | HEARTBEAT}, "device_plugin", "k3s"),
        ({"k3s": wrote(GPU)}, "unknown", "k3s"),
        ({FIELD_MANAGER: wrote(GPU)}, "node_capacity", FIELD_MANAGER),
        ({FIELD_MANAGER: wrote(GPU), "kubelet": HEARTBEAT}, "node_capacity", FIELD_MANAGER),
        ({"kubectl-patch": wrote(GPU), "kubelet": {"f:allocatable": {f"f:{GPU}": {}}}}, "unknown", "kubectl-patch"),
    ],
)
def test_the_last_writer_owns(managers: dict[str, Any], owner: str, manager: str) -> None:
    found = extended_resources(node({GPU: "1", "cpu": "4"}, **managers))
    assert list(found) == [GPU] and (found[GPU].owner, found[GPU].manager) == (owner, manager)


def test_what_a_rejoined_node_gets_back() -> None:
    status: dict[str, Any] = {"f:capacity": {"f:a/b": {}, "f:c/d": {}}}
    found = node({"a/b": "1k", "e/f": "2", "cpu": "4"}, {"c/d": "3"}, **{FIELD_MANAGER: status})
    assert patched_by_us(found) == {"a/b": "1k"}


@pytest.mark.parametrize(
    ("capacity", "allocatable", "live", "letting_go"),
    [("4", "4", True, False), ("4", "1", True, False), ("4", "0", False, True), ("0", "0", False, False)],
)
def test_a_plugin_is_live_or_going(capacity: str, allocatable: str, live: bool, letting_go: bool) -> None:
    found = extended_resources(node({GPU: capacity}, {GPU: allocatable}, kubelet=wrote(GPU)))[GPU]
    assert (found.live, found.letting_go) == (live, letting_go)
    ours = extended_resources(node({GPU: capacity}, {GPU: allocatable}, **{FIELD_MANAGER: wrote(GPU)}))[GPU]
    assert (ours.live, ours.letting_go) == (False, False)


def container(amount: str | None = None, limit: str | None = None, **more: Any) -> dict[str, Any]:
    found = {"requests": {GPU: amount} if amount else None, "limits": {GPU: limit} if limit else None}
    return {"name": "c", "resources": found, **more}


@pytest.mark.parametrize(
    ("spec", "amount"),
    [
        ({"containers": [container("1"), container("2")]}, 3),
        ({"containers": [container(limit="2")]}, 2),
        ({"containers": [container("1")], "initContainers": [container("5"), container("4")]}, 5),
        ({"containers": [container("3")], "initContainers": [container("2")]}, 3),
        ({"containers": [container("3")], "initContainers": [container("2", restartPolicy="Always")]}, 5),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("4"), container("2", restartPolicy="Always")],
            },
            4,
        ),
        ({"containers": [container("1")], "overhead": {GPU: "1"}}, 2),
    ],
)
def test_what_the_scheduler_counts(spec: dict[str, Any], amount: int) -> None:
    assert pod_requests({"spec": spec})[GPU].value == amount


def test_pods_that_ended_hold_nothing() -> None:
    def pod(name: str, phase: str) -> dict[str, Any]:
        metadata = {"namespace": "n", "name": name}
        return {"metadata": metadata, "status": {"phase": phase}, "spec": {"containers": [container("2")]}}

    pods = [pod("a", "Running"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d", "Pending")]
    assert [str(one) for one in holders(pods)[GPU]] == ["n/a (2)", "n/d (2)"]
    assert holders([{}, {"spec": {"containers": [{}]}}]) == {}
