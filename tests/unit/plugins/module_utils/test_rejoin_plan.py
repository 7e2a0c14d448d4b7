# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    AGENTS,
    DELETE,
    DRAIN,
    FINISH,
    JOIN,
    PREPARE,
    RESET,
    RESTORE,
    STEPS,
    STOP,
    HostView,
    KeptFile,
    NodeView,
    Record,
    read_host,
    read_record,
    refusals,
    steps_left,
    view_of,
)

OP = "operation-1"
RECORD = Record(OP, "w", old_uid="old")
OLD = NodeView("old", ready="True")
MADE = NodeView("new", OP)
SPOKEN = NodeView("new", OP, ready="True")
HOST = HostView("w", reachable=True, kubelet_running=True, kubelet_conf=True)
EMPTY = HostView("w", reachable=True)
MARKED = replace(EMPTY, mark=OP)
JOINED = replace(HOST, mark=OP)
GONE = HostView("w")
WHOLE = STEPS
HOSTS_OWN = (STOP, RESET, PREPARE, JOIN, RESTORE, AGENTS, FINISH)
END = (RESTORE, AGENTS, FINISH)


@pytest.mark.parametrize(
    ("record", "node", "host", "steps"),
    [
        # as it goes, step by step
        (RECORD, OLD, HOST, WHOLE),
        (RECORD, OLD, EMPTY, WHOLE),  # stopped
        (RECORD, None, HOST, HOSTS_OWN),  # deleted
        (RECORD, None, MARKED, HOSTS_OWN),  # reset
        (RECORD, MADE, MARKED, HOSTS_OWN),  # the Node is made
        (RECORD, SPOKEN, JOINED, END),  # joined
        (replace(RECORD, joined_uid="new"), SPOKEN, HOST, END),  # and the mark went with the agents' start
        (replace(RECORD, joined_uid="new"), NodeView("new", ready="True"), HOST, END),  # our annotation too
        # what happens in between
        (RECORD, NodeView("other", ready="True"), HOST, WHOLE),  # the old kubelet restarted and registered again
        (RECORD, replace(MADE, ready="Unknown"), MARKED, HOSTS_OWN),  # nobody came for a minute
        (RECORD, SPOKEN, replace(JOINED, kubelet_running=False), WHOLE),  # joined, and its kubelet does not run
        (RECORD, SPOKEN, replace(MARKED, kubelet_running=True), WHOLE),  # half joined: kubeadm would refuse
        (RECORD, None, JOINED, HOSTS_OWN),  # somebody deleted the Node
        (replace(RECORD, joined_uid="new"), NodeView("later", ready="True"), HOST, WHOLE),
        (RECORD, OLD, replace(HOST, mark="an earlier operation"), WHOLE),
        # a host that can't be reached
        (RECORD, OLD, GONE, (DRAIN, DELETE)),
        (RECORD, None, GONE, ()),
        (RECORD, MADE, GONE, ()),
    ],
)
def test_steps(record: Record, node: NodeView | None, host: HostView, steps: tuple[str, ...]) -> None:
    assert steps_left(record, node, host) == steps


@pytest.mark.parametrize(
    ("node", "host", "fenced", "said"),
    [
        (OLD, HOST, False, []),
        (replace(OLD, control_plane=True), HOST, False, ["control plane"]),
        (OLD, replace(HOST, control_plane=True), False, ["control plane"]),
        (replace(OLD, machine_id="a"), replace(HOST, machine_id="b"), False, ["another machine"]),
        (replace(OLD, machine_id="a"), replace(HOST, machine_id="a"), False, []),
        (OLD, replace(HOST, problems=("no kubeadm", "no runtime")), False, ["no kubeadm", "no runtime"]),
        (replace(OLD, ready="Unknown"), GONE, False, ["rejoin_fenced=true"]),
        (replace(OLD, ready="Unknown"), GONE, True, []),
        (OLD, GONE, True, ["still speaks"]),
    ],
)
def test_refusals(node: NodeView, host: HostView, fenced: bool, said: list[str]) -> None:
    found = refusals(node, host, steps_left(RECORD, node, host), fenced)
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


def test_a_host_with_problems_may_still_be_finished() -> None:
    host = replace(JOINED, problems=("containerd is busy",))
    assert refusals(SPOKEN, host, steps_left(RECORD, SPOKEN, host), False) == []


def test_a_node_in_the_values_that_count() -> None:
    node = {
        "metadata": {
            "uid": "u",
            "labels": {"node-role.kubernetes.io/control-plane": ""},
            "annotations": {"colocation.kubernetes/rejoining": OP},
        },
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"machineID": "m"}},
    }
    assert view_of(node) == NodeView("u", OP, "Unknown", "m", True, True)
    assert view_of({"metadata": {"uid": "u"}}) == NodeView("u")


def test_a_record_survives_its_json_and_hides_contents() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    file = KeptFile("/etc/cni/net.d/10-a", "c2VjcmV0", 0o640, 1, 2)
    record = replace(RECORD, labels={"a": "b"}, taints=(taint,), files=(file,), agents=("x.service",), cordoned=True)
    record = replace(record, kubelet_flags={"node-ip": "10.0.0.1"})
    assert read_record(json.loads(json.dumps(record.to_json()))) == record
    earlier = {name: value for name, value in record.to_json().items() if name != "kubelet_flags"}
    assert read_record(json.loads(json.dumps(earlier))) == replace(record, kubelet_flags={})
    assert record.told()["files"] == ["/etc/cni/net.d/10-a"]
    assert "c2VjcmV0" not in repr(record)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"operation": ""},
        {"operation": 5},
        {"labels": []},
        {"kubelet_flags": ["--v=2"]},
        {"taints": {}},
        {"files": [{"path": "/x"}]},
        {"files": [{"path": "/x", "content": "", "more": 1}]},
    ],
)
def test_a_record_that_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="."):
        read_record({**json.loads(json.dumps(RECORD.to_json())), **change})
    with pytest.raises(ValueError, match="version"):
        read_record([])


def test_facts_of_a_host() -> None:
    assert read_host({"node": "w", "reachable": "True", "problems": ["p"], "more": 1}).problems == ("p",)
    assert read_host({"node": "w"}) == GONE
    assert read_host({"node": "w", "kubelet_flags": {"v": 2}}).kubelet_flags == {"v": "2"}
    for wrong in ({}, {"node": ""}, {"node": None}):
        with pytest.raises(ValueError, match="host_facts"):
            read_host(wrong)
