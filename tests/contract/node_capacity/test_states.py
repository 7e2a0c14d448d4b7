# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What node_capacity does to nodes when nothing is in its way: each state, one node and a hundred."""

from __future__ import annotations

import json

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes

GPU, MEMORY = "mock.com/gpu", "mock/gpu-memory"


def test_present_sets_and_a_second_run_changes_nothing(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    first = nodes.set(node=[node], resources={GPU: 10, MEMORY: "4k"})
    assert first["changed"] and nodes.status(node) == {GPU: "10", MEMORY: "4k"}
    assert first["results"][0]["capacity"] == {GPU: "10", MEMORY: "4k"}
    version = nodes.version(node)
    for same in ({GPU: "10", MEMORY: "4000"}, {GPU: "1e1", MEMORY: 4000}, {GPU: "10000m"}):
        assert nodes.set(node=[node], resources=same)["changed"] is False
    assert nodes.version(node) == version


def test_the_short_form(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    assert nodes.set(node=node, resource=GPU, value="3")["changed"]
    assert nodes.status(node) == {GPU: "3"}
    assert nodes.set(node=node, resource=GPU, state="absent")["changed"]
    assert nodes.status(node) == {}


def test_a_node_that_no_kubelet_has_filled_in(nodes: Nodes) -> None:
    name = f"{nodes.label}-bare"
    metadata = {"name": name, "labels": {"test": nodes.label}}
    nodes.client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    assert nodes.set(node=[name], resources={GPU: 1, MEMORY: 2})["changed"]
    assert nodes.status(name) == {GPU: "1", MEMORY: "2"}
    assert nodes.set(node=[name], resources={GPU: 1, MEMORY: 2})["changed"] is False


def test_only_what_changes_is_in_the_diff(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.write(node, MEMORY, "7")
    nodes.set(node=[node], resources={GPU: 10})
    [diff] = nodes.set(node=[node], resources={GPU: 11, MEMORY: 7})["diff"]
    assert (diff["before"], diff["after"]) == ({GPU: "10"}, {GPU: "11"})
    assert nodes.set(node=[node], resources={GPU: 11, MEMORY: 7})["diff"] == []


def test_absent_takes_it_out_of_allocatable_too(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.write(node, GPU, "5")
    nodes.write(node, MEMORY, "5")
    nodes.client.patch(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {GPU: "5"}}})
    assert nodes.set(node=[node], resources={GPU: None}, state="absent")["changed"]
    assert (nodes.status(node), nodes.status(node, "allocatable")) == ({MEMORY: "5"}, {})
    assert nodes.set(node=[node], resources={GPU: 99}, state="absent")["changed"] is False


def test_exact_leaves_native_resources_alone(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.write(node, GPU, "5")
    nodes.write(node, "attachable-volumes-csi-x", "9")
    answer = nodes.set(node=[node], resources={MEMORY: 2}, state="exact")
    assert nodes.status(node) == {MEMORY: "2"}
    assert answer["diff"][0]["before"] == {GPU: "5"} and answer["diff"][0]["after"] == {MEMORY: "2"}
    assert nodes.set(node=[node], resources={MEMORY: 2}, state="exact")["changed"] is False
    assert nodes.set(node=[node], resources={}, state="exact")["changed"]
    left = nodes.client.get(f"/api/v1/nodes/{node}")["status"]["capacity"]
    assert left == {"cpu": "4", "pods": "110", "attachable-volumes-csi-x": "9"}


def test_labels_choose_nodes(nodes: Nodes) -> None:
    first, second = nodes.make("a", "b")
    nodes.client.patch(f"/api/v1/nodes/{second}", {"metadata": {"labels": {"gpu": "mock"}}})
    answer = nodes.set(label_selectors=[f"test={nodes.label}", "gpu=mock"], resources={GPU: 1})
    assert [one["node"] for one in answer["results"]] == [second]
    assert (nodes.status(first), nodes.status(second)) == ({}, {GPU: "1"})
    nothing = nodes.set(label_selectors=[f"test={nodes.label}", "gpu=real"], resources={GPU: 1})
    assert (nothing["changed"], nothing["results"]) == (False, [])
    assert "no node has the labels" in nothing["warnings"][0]


def test_check_mode_asks_the_server_and_changes_nothing(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.write(node, MEMORY, "1")
    version = nodes.version(node)
    would = nodes.set(node=[node], resources={GPU: "1000"}, state="exact", wait=True, check_mode=True)
    assert would["changed"] and nodes.version(node) == version
    assert would["results"][0]["capacity"] == {GPU: "1k"}  # the server's own writing: it was asked
    did = nodes.set(node=[node], resources={GPU: "1000"}, state="exact")
    assert would["diff"] == did["diff"]
    assert nodes.set(node=[node], resources={GPU: "1k"}, state="exact", check_mode=True)["changed"] is False


@pytest.mark.parametrize("by", ["names", "labels"])
def test_a_hundred_nodes_through_every_state(nodes: Nodes, by: str) -> None:
    names = nodes.make(*(f"n{number:03}" for number in range(100)))
    chosen = {"node": names} if by == "names" else {"label_selectors": [f"test={nodes.label}"]}
    for options, expected in (
        ({"resources": {GPU: 10, MEMORY: 1}}, {GPU: "10", MEMORY: "1"}),
        ({"resources": {GPU: 11}, "state": "exact"}, {GPU: "11"}),
        ({"resources": {GPU: None}, "state": "absent"}, {}),
    ):
        would = nodes.set(**chosen, **options, check_mode=True)
        did = nodes.set(**chosen, **options)
        assert would["changed"] and did["changed"] and would["diff"] == did["diff"]
        assert [one["node"] for one in did["results"]] == names
        assert all(one["changed"] and not one["failed"] for one in did["results"])
        assert all(nodes.status(name) == expected for name in names)
        again = nodes.set(**chosen, **options)
        assert again["changed"] is False and again["diff"] == []


def test_info_tells_amounts_holders_and_owners(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.write(node, MEMORY, "8", manager="kubectl-patch")
    nodes.write(node, "plugin.com/fpga", "2", manager="kubelet")
    nodes.set(node=[node], resources={GPU: 10})
    nodes.pod(node, "one", GPU, "2")
    nodes.pod(node, "two", GPU, "3")
    nodes.pod(node, "done", GPU, "4", phase="Succeeded")
    [told] = nodes.info(node=[node])["nodes"]
    found = {one["name"]: one for one in told["resources"]}
    assert {name: one["owner"] for name, one in found.items()} == {
        GPU: "node_capacity",
        MEMORY: "unknown",
        "plugin.com/fpga": "device_plugin",
    }
    assert (found[GPU]["capacity"], found[GPU]["requested"]) == ("10", "5")
    assert [one["name"] for one in found[GPU]["pods"]] == [f"{nodes.label}-one", f"{nodes.label}-two"]
    assert found[MEMORY]["manager"] == "kubectl-patch"
    assert json.dumps(nodes.info(label_selectors=[f"test={nodes.label}"])["nodes"]) == json.dumps([told])


def test_info_of_many_nodes_reads_all_pods_once(nodes: Nodes) -> None:
    names = nodes.make(*(f"n{number:02}" for number in range(12)))
    nodes.set(node=names, resources={GPU: 1})
    nodes.pod(names[7], "one", GPU, "1")
    told = nodes.info(node=names)["nodes"]
    assert [one["node"] for one in told] == names
    assert [one["resources"][0]["requested"] for one in told] == ["1" if n == 7 else "0" for n in range(12)]
