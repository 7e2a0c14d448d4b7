# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What nodes and the API say, as values; what they don't say is no value."""

from __future__ import annotations

from typing import Any

from ansible_collections.colocation.kubernetes.tests.run.story import readings, workloads
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key

GIB = 1 << 30
MEMINFO = "MemTotal:        3000000 kB\nMemFree:  1 kB\nMemAvailable:    2097152 kB\n"
PRESSURE = "some avg10=12.50 avg60=1.00 avg300=0.10 total=123\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n"


def pod(role: str | None, node: str | None, phase: str = "Running", **more: Any) -> dict[str, Any]:
    resources = {"limits": {readings.MEMORY: "6"}} if role == "batch" else {}
    conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    return {
        "metadata": {"name": "it", "labels": {readings.ROLE: role} if role else None, **more},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase, "conditions": conditions},
    }


def test_online_use_of_a_node_is_the_sum_of_its_zones() -> None:
    text = (
        "# HELP colocation_memory_online_bytes What all but the blocks use.\n"
        f'colocation_memory_online_bytes{{zone="0"}} {GIB}\ncolocation_memory_online_bytes{{zone="1"}} {GIB / 2}\n'
        'other{a="b\\"}"} 7\nbroken{ 1\ncolocation_memory_online_bytes{zone="2"} soon\n'
    )
    assert readings.of_agent("n", text) == {Key("memory", "n", "online"): 1.5}


def test_or_that_of_the_whole_node() -> None:
    assert readings.of_agent("n", f'colocation_memory_online_bytes{{zone="all"}} {2 * GIB}') == {
        Key("memory", "n", "online"): 2.0
    }


def test_an_agent_that_does_not_answer_says_nothing() -> None:
    assert readings.of_agent("n", "") == {}


def test_the_kernels_files() -> None:
    assert readings.of_files("n", MEMINFO, PRESSURE) == {
        Key("memory", "n", "available"): 2.0,
        Key("pressure", "n", "some"): 12.5,
    }
    assert readings.of_files("n", "", "") == {}
    assert (readings.available_mib(MEMINFO), readings.total_mib(MEMINFO)) == (2048, 2929)
    assert (readings.available_mib(""), readings.total_mib("")) == (0, 0)


def test_nodes_without_the_resource_offer_nothing_that_could_be_drawn() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {readings.MEMORY: "33"}}
    items = [
        {"metadata": {"name": "a"}, "status": ready},
        {"metadata": {"name": "b"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
    ]
    assert readings.of_nodes({"items": items}) == {
        Key("ready", "a", "ready"): 1.0,
        Key("blocks", "a", "offered"): 33.0,
        Key("ready", "b", "ready"): 0.0,
    }


def test_pods_count_where_they_run_and_hold_blocks_until_they_have_ended() -> None:
    pods = [
        pod("batch", "a"),
        pod("batch", "a", deletionTimestamp="now"),
        pod("batch", "b", "Pending"),
        pod("batch", None, "Pending"),
        pod("batch", "b", "Failed"),
        pod("use", "b"),
        pod(None, "a"),
    ]
    values = readings.of_pods({"items": pods}, ["a", "b"])
    assert values[Key("batch", "a", "batch")] == 1
    assert values[Key("batch", "b", "batch")] == 0
    assert values[Key("placement", "b", "use")] == 1
    assert values[Key("placement", "a", "requests")] == 0
    assert (values[Key("blocks", "a", "held")], values[Key("blocks", "b", "held")]) == (12, 6)


def test_what_the_story_starts_is_what_is_counted() -> None:
    template = workloads.batch()["spec"]["template"]
    started = {**template, "metadata": {**template["metadata"], "name": "it"}, "status": {"phase": "Running"}}
    started["spec"] = {**template["spec"], "nodeName": "a"}
    values = readings.of_pods({"items": [started]}, ["a"])
    assert values[Key("batch", "a", "batch")] == 1
    assert values[Key("blocks", "a", "held")] == workloads.BLOCKS


def test_scores_are_those_of_the_profile() -> None:
    columns = ["node", "score", "load"]
    tables = [
        {"title": "cpu: the 1 fullest of 1 nodes", "columns": columns, "rows": [["a", 1, "9%"]]},
        {"title": "memory: the 2 fullest of 2 nodes", "columns": columns, "rows": [["a", 0, "full"], ["", "", ""]]},
    ]
    assert readings.of_extender({"tables": tables}, "memory") == {Key("scores", "a", "memory"): 0.0}
    assert readings.of_extender({"tables": []}, "memory") == {}
