# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_capacity beside a kubelet's double that has device plugins, and beside pods."""

from __future__ import annotations

import json
import threading

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import until
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.node_kubelet_double import (
    NodeKubeletDouble,
)

GPU, FPGA = "mock.com/gpu", "plugin.com/fpga"


def with_plugin(nodes: Nodes, healthy: int = 4, unhealthy: int = 0) -> tuple[str, NodeKubeletDouble]:
    [node] = nodes.make("a")
    kubelet = nodes.kubelet(node)
    kubelet.plugin(FPGA, healthy, unhealthy)
    until("the plugin's devices are on the node", lambda: nodes.status(node) == {FPGA: str(healthy + unhealthy)})
    return node, kubelet


def stays(nodes: Nodes, node: str, kubelet: NodeKubeletDouble, expected: dict[str, str], syncs: int = 3) -> None:
    end = kubelet.syncs + syncs
    until("the kubelet syncs", lambda: kubelet.syncs >= end)
    assert nodes.status(node) == expected


def test_waiting_until_allocatable_follows(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.kubelet(node)
    [result] = nodes.set(node=[node], resources={GPU: 10}, wait=True, wait_timeout=20)["results"]
    assert result["settled"] and result["allocatable"] == {GPU: "10"}
    [result] = nodes.set(node=[node], resources={GPU: 20})["results"]
    assert result["changed"] and not result["settled"]


def test_waiting_for_a_node_without_a_kubelet_ends(nodes: Nodes) -> None:
    first, second = nodes.make("a", "b")
    nodes.kubelet(first)
    answer = nodes.set(node=[first, second], resources={GPU: 10}, wait=True, wait_timeout=2)
    assert answer["failed"] and "1 of 2 nodes failed" in answer["msg"] and "running kubelet" in answer["msg"]
    assert [one["settled"] for one in answer["results"]] == [True, False]
    assert [one["changed"] for one in answer["results"]] == [True, True]  # told apart from not changed


@pytest.mark.parametrize("options", [{"state": "absent"}, {"state": "present", "value": "9"}])
def test_a_live_device_plugin_is_not_overruled(nodes: Nodes, options: dict[str, str]) -> None:
    node, kubelet = with_plugin(nodes)
    answer = nodes.set(node=[node], resource=FPGA, **options)
    assert answer["failed"] and "live device plugin (4 allocatable)" in answer["msg"] and "force" in answer["msg"]
    forced = nodes.set(node=[node], resource=FPGA, force=True, **options)
    assert forced["changed"] and not forced["results"][0]["settled"] and "may write it back" in forced["warnings"][0]
    until("the kubelet writes it back", lambda: nodes.status(node) == {FPGA: "4"})


def test_a_plugin_that_has_just_gone_is_waited_for(nodes: Nodes) -> None:
    """The Node tells of it only when the kubelet writes it again."""
    node, kubelet = with_plugin(nodes)
    ends = threading.Timer(3, kubelet.plugin_ends, [FPGA])
    ends.start()
    answer = nodes.set(node=[node], resource=FPGA, state="absent", wait=True, wait_timeout=60, settle_time=10)
    ends.join()
    assert answer["changed"] and answer["results"][0]["settled"], answer


def test_setting_what_the_plugin_offers_already_is_no_change(nodes: Nodes) -> None:
    node, _kubelet = with_plugin(nodes)
    assert nodes.set(node=[node], resources={FPGA: 4, GPU: 1}, state="exact")["results"][0]["capacity"] == {
        FPGA: "4",
        GPU: "1",
    }


def test_a_removed_plugins_resource_stays_away(nodes: Nodes) -> None:
    """The kubelet writes it for its grace period: the removal waits for that, and watches afterwards."""
    node, kubelet = with_plugin(nodes)
    kubelet.plugin_ends(FPGA)
    until("its devices are unhealthy", lambda: nodes.status(node, "allocatable").get(FPGA) == "0")
    answer = nodes.set(node=[node], resource=FPGA, state="absent", wait=True, wait_timeout=30, settle_time=1)
    assert answer["changed"] and answer["results"][0]["settled"], answer
    stays(nodes, node, kubelet, {})
    assert nodes.set(node=[node], resource=FPGA, state="absent", wait=True)["changed"] is False


def test_without_waiting_it_is_told_that_it_comes_back(nodes: Nodes) -> None:
    node, kubelet = with_plugin(nodes)
    kubelet.plugin_ends(FPGA)
    until("its devices are unhealthy", lambda: nodes.status(node, "allocatable").get(FPGA) == "0")
    answer = nodes.set(node=[node], resource=FPGA, state="absent")
    assert answer["changed"] and "may write it back" in answer["warnings"][0]
    assert answer["results"][0]["settled"] is False
    until("the kubelet writes it back", lambda: FPGA in nodes.status(node))


def test_a_plugin_with_sick_devices_is_not_gone(nodes: Nodes) -> None:
    node, _kubelet = with_plugin(nodes, healthy=0, unhealthy=3)
    answer = nodes.set(node=[node], resource=FPGA, state="absent", wait=True, wait_timeout=3, settle_time=1)
    assert answer["failed"] and answer["changed"] is False and "unhealthy devices only" in answer["msg"]
    assert nodes.status(node) == {FPGA: "3"}


def test_a_kubelet_that_writes_back_is_outlasted(nodes: Nodes) -> None:
    """An empty list of a live plugin looks like a leftover until it comes back."""
    node, kubelet = with_plugin(nodes)
    kubelet.plugin(FPGA, 0)
    until("nothing is left", lambda: nodes.status(node) == {FPGA: "0"})
    answer = nodes.set(node=[node], resource=FPGA, state="absent", wait=True, wait_timeout=4, settle_time=2)
    assert answer["failed"] and "not settled within 4 s" in answer["msg"]
    until("the kubelet writes it back", lambda: FPGA in nodes.status(node))
    kubelet.plugin_ends(FPGA)
    answer = nodes.set(node=[node], resource=FPGA, state="absent", wait=True, wait_timeout=30, settle_time=1)
    assert not answer.get("failed"), answer["msg"]
    stays(nodes, node, kubelet, {})


def test_pods_hold_what_they_hold(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    nodes.set(node=[node], resources={GPU: 10})
    nodes.pod(node, "one", GPU, "2")
    nodes.pod(node, "done", GPU, "3", phase="Failed")
    for options in ({"resource": GPU, "state": "absent"}, {"resources": {}, "state": "exact"}):
        answer = nodes.set(node=[node], **options)
        assert answer["failed"] and f"held by default/{nodes.label}-one (2)" in answer["msg"]
        assert "-done" not in answer["msg"] and nodes.status(node) == {GPU: "10"}
        assert nodes.set(node=[node], **options, check_mode=True)["failed"]
    assert nodes.set(node=[node], resource=GPU, state="absent", force=True)["changed"]
    [told] = nodes.info(node=[node])["nodes"]
    assert told["resources"][0]["requested"] == "2" and told["resources"][0]["capacity"] == ""


def test_info_knows_a_live_plugin_from_one_that_went(nodes: Nodes) -> None:
    node, kubelet = with_plugin(nodes)

    def told() -> dict[str, str]:
        [resource] = nodes.info(node=[node])["nodes"][0]["resources"]
        return {name: resource[name] for name in ("owner", "live", "capacity", "allocatable")}

    assert told() == {"owner": "device_plugin", "live": True, "capacity": "4", "allocatable": "4"}
    kubelet.plugin_ends(FPGA)
    until("it went", lambda: told()["capacity"] == "0")
    assert told() == {"owner": "device_plugin", "live": False, "capacity": "0", "allocatable": "0"}, json.dumps(told())
