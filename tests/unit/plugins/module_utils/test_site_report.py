# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The table that site.yml ends with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import found
from ansible_collections.colocation.kubernetes.plugins.module_utils._site_report import (
    Site,
    failed,
    read_site,
    site_lines,
)

RELEASE = "0.1.0-5b2c0f3a9d1e"
PROXY_PAGE = {
    "url": "http://127.0.0.1:9463/status",
    "problem": "",
    "facts": {"policy": "topology-aware", "machine": "1 socket, 2 NUMA nodes, 4 CCXes, 8 CPUs"},
    "tables": [
        {
            "title": "Containers",
            "columns": ["container", "CPUs", "memory of NUMA", "place", "asked", "kind"],
            "rows": [
                ["default/p10/main", "10-11", None, "ccx", 1.0, "online"],
                ["default/p1/main", "2-3", None, "ccx", 1.0, "online"],
                ["default/p2/main", "2-3", None, "ccx", 1.0, "online"],
            ],
        }
    ],
}


def agent(unit: str, state: str = "active", page: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"unit": f"{unit}.service", "state": state, "release": RELEASE, "page": page}


def health(*names: str, agents: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"findings": [asdict(found(name, 'this was "seen"')) for name in names], "agents": list(agents)}


def capacity(**amounts: tuple[str, str]) -> dict[str, Any]:
    resources = [
        {"name": name.replace("_", "/"), "allocatable": offered, "requested": taken}
        for name, (taken, offered) in amounts.items()
    ]
    return {"nodes": [{"node": "n", "resources": resources}]}


def site(
    healths: dict[str, Any], capacities: dict[str, Any] | None = None, check_mode: bool = False, **more: Any
) -> Site:
    nodes = more.get("nodes", healths)
    return read_site(healths, capacities or {}, more.get("unreachable", ()), nodes, check_mode)


def test_a_row_for_each_agent_and_resource_under_heads_that_fit() -> None:
    agents = agent("colocation-device-plugin"), agent("cri-resource-manager", "failed")
    healths = {"worker1": health(agents=agents), "w2": health()}
    capacities = {"worker1": capacity(mock_gpu=("1", "10"), memory=("3", "25"), gpu=("", "")), "w2": {"skipped": True}}
    assert site_lines(site(healths, capacities)) == [
        "colocation on 2 nodes: 2 healthy",
        "",
        "node     health   release             agents                         on offer  taken",
        f"worker1  healthy  {RELEASE}  colocation-device-plugin       mock/gpu  1 of 10",
        "                                      cri-resource-manager (failed)  memory    3 of 25",
        "                                                                     gpu       0 of 0",
        "w2       healthy  -                   -                              -",
    ]


def test_the_map_of_caches_by_cpus_in_their_order() -> None:
    lines = site_lines(site({"w1": health(agents=(agent("cri-resource-manager", page=PROXY_PAGE),))}))
    assert lines[-3:] == [
        "CPU caches of w1: 1 socket, 2 NUMA nodes, 4 CCXes, 8 CPUs",
        "  2-3    ccx  default/p1/main, default/p2/main",
        "  10-11  ccx  default/p10/main",
    ]


def test_a_proxy_that_does_not_answer_has_no_map() -> None:
    silent = {"url": "u", "problem": "u does not answer", "facts": {}, "tables": []}
    for page in (None, silent):
        lines = site_lines(site({"w1": health(agents=(agent("cri-resource-manager", page=page),))}))
        assert not any("CPU caches" in line for line in lines)


def test_what_is_wrong_with_its_remedy_without_quotes() -> None:
    told = site({"w1": health("swap-on"), "w2": health("clock-unsynchronized"), "w3": health()})
    text = "\n".join(site_lines(told))
    assert text.startswith("colocation on 3 nodes: 1 healthy, 1 with warnings or notices, 1 critical\n")
    assert "w1: 1 critical\n  critical [swap-on] this was 'seen'\n    -> swapoff -a" in text
    assert failed(told, ("critical",)) == ["w1"]
    assert failed(told, ("critical", "warning")) == ["w1", "w2"]


def test_check_mode_tells_what_stands_and_fails_for_nothing_that_it_could_not_mend() -> None:
    told = site({"w1": health("swap-on")}, check_mode=True)
    assert site_lines(told)[1] == "check mode: nothing was changed, and this is how it stands now"
    assert failed(told, ("critical",)) == []


def test_nodes_that_were_left_out_and_those_that_fell_out() -> None:
    healths = {"w1": health(), "w2": {"unreachable": True, "msg": "no route"}, "w3": None}
    told = site(healths, unreachable=["w4"], nodes=["w1", "w2", "w3", "w4", "w5", "w6"], check_mode=True)
    text = "\n".join(site_lines(told))
    assert "colocation on 4 nodes: 1 healthy, 3 not looked at" in text
    assert "left out of this run: w5, w6 (2 hosts)" in text
    assert "w2: unreachable: no route" in text
    assert "w3: it fell out of the play before it was looked at" in text
    assert failed(told, ("critical",)) == ["w4", "w2", "w3"]


def test_offers_that_could_not_be_read_are_no_offers_of_nothing() -> None:
    lines = site_lines(site({"w1": health()}, {"w1": {"failed": True, "msg": "403 Forbidden"}}))
    assert "not read" in lines[3]
    assert lines[-1] == "  what it offers could not be read: 403 Forbidden"
