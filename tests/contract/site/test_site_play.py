# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""site.yml and uninstall.yml by a real ansible-playbook, over nodes whose modules are doubles (module_double.py).

What the parts do to real nodes, the scenarios in molecule/ show; here it is which part is run, looked for or left out,
how many tasks that costs, and what is told at the end.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import CHECKS
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import found
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import ROOT, recap, run_ansible
from ansible_collections.colocation.kubernetes.tests.contract.doubled_collection import doubled_collection, file_host
from ansible_collections.colocation.kubernetes.tests.contract.site.healthy_answers import (
    MOCK,
    RELEASE,
    RESOURCE,
    healthy_answers,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import PreflightNode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the made hosts are this machine as root")

ROLES = ("preflight", "node_prep", "agent_runtime", "credentials", "device_plugin")
AGENT = (
    "- colocation.kubernetes.agent_service: {name: cri_proxy, unit: x.service, state: STATE}\n  register: REGISTER\n"
)
OBJECTS = """\
- colocation.kubernetes.kube_objects: {component: ROLE, objects: [], state: STATE}
  delegate_to: localhost
  run_once: true
"""
EXPORTER = "- colocation.kubernetes.agent_service: {name: exporter, unit: x.service, state: STATE}\n"
WISH = '\'{{ cri_proxy_enabled | default(false) | ternary("started", "absent") }}\''
# These roles would touch this machine beside their modules, or want a cluster; each is one call of a double here.
MADE = {
    "roles/cri_proxy/tasks/main.yml": AGENT.replace("STATE", WISH).replace("REGISTER", "__cri_proxy_had"),
    "roles/cri_proxy/tasks/uninstall.yml": AGENT.replace("STATE", "absent").replace("REGISTER", "__cri_proxy_removed"),
    **{
        f"roles/{role}/tasks/{entry}.yml": OBJECTS.replace("STATE", state).replace("ROLE", role) + more
        for role, entry, state, more in (
            ("scheduler", "main", "present", ""),
            ("scheduler", "uninstall", "absent", ""),
            ("monitoring", "main", "present", EXPORTER.replace("STATE", "started")),
            ("monitoring", "uninstall_cluster", "absent", ""),
        )
    },
    "roles/monitoring/tasks/uninstall_hosts.yml": EXPORTER.replace("STATE", "absent"),
}
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("[!_]*.py"))
# Of a node with the mock devices, in the whole of site.yml, skipped ones too; every node pays each.
TOLD_TASKS = re.compile(r"has (\d+) tasks for a host")


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    output: str

    def recap(self, host: str) -> dict[str, int]:
        return recap(self.output, host)

    @property
    def table(self) -> list[str]:
        """The lines of the table at the end; it is there once."""
        (found,) = re.findall(r'"msg": (\[\n +"colocation on .*?\n    \])', self.output, re.DOTALL)
        lines: list[str] = json.loads(found)
        return lines


class Site:
    """Nodes that are files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        doubled_collection(place, Path(__file__).with_name("module_double.py"), MODULES, ROLES, MADE)
        facts = asdict(PreflightNode(place / "facts").facts())
        self.hosts: dict[str, dict[str, Any]] = {}
        for name in ("w1", "w2"):
            answers = healthy_answers(name, facts)
            state = {"standing": [], "answers": answers, "log": []}
            self.hosts[name] = file_host(place, name, "SITE_NODE", state)
        self.control_plane = file_host(place, "cp", "SITE_NODE", {"standing": [], "answers": answers, "log": []})
        self.local = file_host(place, "localhost", "SITE_NODE", {"standing": [], "answers": {}, "log": []})
        self.others: dict[str, dict[str, Any]] = {}  # hosts in no group
        self.variables: dict[str, Any] = {}  # of the inventory

    def state(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.place / f"{name}.json").read_text())
        return state

    def answer(self, name: str, module: str, **answer: Any) -> None:
        state = self.state(name)
        state["answers"][module] |= answer
        (self.place / f"{name}.json").write_text(json.dumps(state))

    def log(self, name: str) -> list[str]:
        """What was done on a host since the last question, without what only looks."""
        state = self.state(name)
        (self.place / f"{name}.json").write_text(json.dumps({**state, "log": []}))
        looks = ("node_facts", "node_health", "node_ready", "node_capacity_info", "agent_credentials_info")
        return [line for line in state["log"] if not line.startswith(looks)]

    def run(self, playbook: str, *arguments: str, **variables: Any) -> Run:
        groups = {"kube_node": {"hosts": self.hosts}}
        if self.control_plane:
            groups["kube_control_plane"] = {"hosts": {"cp": self.control_plane}}
        hosts = {"localhost": self.local, **self.others}
        inventory = {"hosts": hosts, "children": groups, "vars": self.variables}
        (self.place / "hosts.json").write_text(json.dumps({"all": inventory}))
        said = {"ansible_become": False, "preflight_skip": sorted(CHECKS), "verify_patience": 0, **variables}
        return Run(
            *run_ansible(
                self.place,
                "ansible-playbook",
                f"--inventory={self.place / 'hosts.json'}",
                f"--extra-vars={json.dumps(said)}",
                *arguments,
                f"colocation.kubernetes.{playbook}",
                collections=self.place,
            )
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_part_that_is_off_costs_nothing_and_the_second_run_changes_nothing(site: Site) -> None:
    first = site.run("site", colocation_serial=2, **MOCK)
    assert first.status == 0, first.output
    done = site.log("w1")
    assert not [line for line in done if "cri_proxy" in line or "kube_objects" in line]
    assert "agent_service device_plugin" in done and "node_swap" in done
    recap = first.recap("w1")
    (told,) = TOLD_TASKS.findall((ROOT / "docs" / "site.md").read_text())
    assert recap["ok"] + recap["skipped"] == int(told), first.output
    assert recap["changed"] == len(site.state("w1")["standing"]) > 5
    assert first.table[:4] == [
        "colocation on 2 nodes: 2 healthy",
        "",
        "node  health   release             agents                    on offer      taken",
        f"w1    healthy  {RELEASE}  colocation-device-plugin  mock.com/gpu  1 of 10",
    ]
    second = site.run("site", colocation_serial=2, **MOCK)
    assert second.status == 0, second.output
    assert {name: second.recap(name)["changed"] for name in ("w1", "w2", "cp")} == {"w1": 0, "w2": 0, "cp": 0}


def test_check_mode_on_a_half_installed_node_foretells_what_is_done(site: Site) -> None:
    assert site.run("site", "--tags=node_prep", "--limit=w1", **MOCK).status == 0
    half = site.state("w1")["standing"]
    assert half and not site.state("w2")["standing"]
    site.answer("w2", "node_health", findings=[asdict(found("swap-on", "swap is on"))])
    check = site.run("site", "--check", **MOCK)
    assert check.status == 0, check.output
    assert check.table[0] == "colocation on 2 nodes: 1 healthy, 1 critical"
    assert check.table[1].startswith("check mode: nothing was changed")
    assert site.state("w1")["standing"] == half and not site.state("w2")["standing"]
    site.answer("w2", "node_health", findings=[])
    real = site.run("site", **MOCK)
    assert real.status == 0, real.output
    foretold = {name: check.recap(name)["changed"] for name in ("w1", "w2")}
    assert foretold == {name: real.recap(name)["changed"] for name in ("w1", "w2")}
    assert 0 < foretold["w1"] < foretold["w2"]


def test_a_limit_touches_one_node_and_the_table_says_so(site: Site) -> None:
    run = site.run("site", "--limit=w2", **MOCK)
    assert run.status == 0, run.output
    assert site.state("w1")["log"] == [] and site.state("cp")["log"] == []
    assert "agent_service device_plugin" in site.log("w2")
    assert run.table[:2] == ["colocation on 1 node: 1 healthy", "left out of this run: w1"]


def test_an_agent_that_is_switched_off_is_removed_once(site: Site) -> None:
    assert site.run("site", cri_proxy_enabled=True, **MOCK).status == 0
    assert "agent_service cri_proxy" in site.log("w1")
    assert site.run("site", **MOCK).status == 0
    assert "agent_service cri_proxy absent" in site.log("w1")
    assert site.run("site").status == 0  # nothing on offer either
    assert "agent_service device_plugin absent" in site.log("w1")
    last = site.run("site")
    assert last.status == 0, last.output
    assert not [line for line in site.log("w1") if line.startswith("agent_")]


@pytest.mark.parametrize("playbook", ["site", "uninstall"])
def test_no_agent_goes_while_a_pod_holds_what_it_offers(site: Site, playbook: str) -> None:
    assert site.run("site", "--limit=w1", **MOCK).status == 0
    site.answer("w1", "agent_service", resources=[RESOURCE])
    held = {"name": RESOURCE, "allocatable": "10", "manager": "kubelet", "pods": [{"name": "batch/train-0"}]}
    site.answer("w1", "node_capacity_info", nodes=[{"node": "w1", "resources": [held]}])
    site.log("w1")
    run = site.run(playbook, "--limit=w1", "--skip-tags=node_prep")
    assert run.status != 0
    assert "nothing was removed: batch/train-0." in " ".join(run.output.split())
    assert "agent_service device_plugin absent" not in site.log("w1")
    forced = site.run(playbook, "--limit=w1", "--skip-tags=node_prep", colocation_force=True)
    assert forced.status == 0, forced.output
    assert "agent_service device_plugin absent" in site.log("w1")
    if playbook == "site":  # which goes on from then on: those pods have lost the agent
        site.answer("w1", "agent_service", resources=[RESOURCE], removed=[])
        again = site.run(playbook, "--limit=w1", "--skip-tags=node_prep")
        assert again.status == 0, again.output


def test_the_label_of_memory_that_is_no_more_offered_goes(site: Site) -> None:
    def run(resources: dict[str, Any], ever: list[str], **more: Any) -> list[str]:
        """What is done about labels, if these were noted before."""
        site.answer("w1", "agent_service", resources=ever)
        done = site.run("site", "--limit=w1", "--skip-tags=node_prep", device_plugin_resources=resources, **more)
        assert done.status == 0, done.output
        return [line for line in site.log("w1") if line.startswith("node_labels")]

    mock = MOCK["device_plugin_resources"]
    gpu = {"gpu": {"g.com/memory": {"unit_mib": 1}}}
    assert run({"memory": {"a.com/memory": None}, **mock, **gpu}, ["a.com/memory", *mock["mock"], "g.com/memory"]) == [
        "node_labels a.com/memory"
    ]
    ever = ["a.com/memory", *mock["mock"]]
    assert run({"memory": {"b.com/memory": None}, **mock}, [*ever, "b.com/memory"]) == [
        "node_labels a.com/memory absent",
        "node_labels b.com/memory",
    ]
    assert run(mock, ever) == ["node_labels a.com/memory absent"]
    assert run(mock, [*mock["mock"]]) == []
    somebody_elses = run({"memory": {"a.com/memory": None}}, ["a.com/memory"], device_plugin_node_labels={})
    assert somebody_elses == []


def test_without_preflight_a_part_that_is_off_is_looked_for(site: Site) -> None:
    assert site.run("site", cri_proxy_enabled=True).status == 0
    site.log("w1")
    run = site.run("site", "--skip-tags=preflight,node_prep")
    assert run.status == 0, run.output
    assert "agent_service cri_proxy absent" in site.log("w1")


def test_a_part_by_its_tag_and_by_its_switch(site: Site) -> None:
    run = site.run("site", "--tags=node_prep_configure")
    assert run.status == 0, run.output
    assert "node_swap" in site.log("w1")
    run = site.run("site", node_prep_enabled=False, monitoring_enabled=True, scheduler_enabled=True)
    assert run.status == 0, run.output
    assert not [line for line in site.log("w1") if line.startswith("node_")]
    assert site.log("localhost") == ["kube_objects monitoring", "kube_objects scheduler"]


def test_an_ill_node_fails_the_run_unless_it_is_only_to_be_told(site: Site) -> None:
    site.answer("w2", "node_health", findings=[asdict(found("disk-full", "/ has 1 MiB free"))])
    run = site.run("site", **MOCK)
    assert run.status != 0 and "Not well, or not looked at: w2;" in run.output
    assert any("critical [disk-full]" in line for line in run.table)
    assert site.run("site", health_fail_on="never", **MOCK).status == 0


def test_mock_devices_want_no_control_plane_in_the_inventory(site: Site) -> None:
    site.control_plane.clear()
    run = site.run("site", "--limit=w1", **MOCK)
    assert run.status == 0, run.output
    assert "agent_service device_plugin" in site.log("w1")


def test_what_a_plugin_offers_is_waited_for(site: Site) -> None:
    site.answer("w1", "node_capacity_info", nodes=[{"node": "w1", "resources": []}])
    run = site.run("verify", verify_patience=4)
    assert run.status == 0, run.output
    assert run.output.count("FAILED - RETRYING: [w1]: Read what it offers") == 2
    assert "[w2]: Read what it offers" not in run.output
    assert re.search(r"^w1 .* -$", "\n".join(run.table), re.MULTILINE)


def test_an_uninstall_asks_not_what_is_on_now(site: Site) -> None:
    on = {"cri_proxy_enabled": True, "scheduler_enabled": True, "monitoring_enabled": True}
    assert site.run("site", **on, **MOCK).status == 0
    for name in ("w1", "cp", "localhost"):
        site.log(name)
    foretold = site.run("uninstall", "--check")
    assert foretold.status == 0, foretold.output
    assert "kube_objects scheduler" in site.state("localhost")["standing"]
    for name in ("w1", "localhost"):
        assert all("check" in line for line in site.log(name)), name
    gone = site.run("uninstall")
    assert gone.status == 0, gone.output
    assert site.state("localhost")["standing"] == []
    left = site.state("w1")["standing"]
    assert not [thing for thing in left if thing.startswith(("agent_service", "agent_release", "kube_", "node_"))], left
    again = site.run("uninstall")
    assert again.status == 0, again.output
    assert again.recap("localhost")["changed"] == 0


def test_an_uninstall_goes_to_the_host_of_prometheus_wherever_it_is(site: Site) -> None:
    def with_exporter(name: str) -> dict[str, Any]:
        state = {"standing": ["agent_service exporter"], "answers": {}, "log": []}
        return file_host(site.place, name, "SITE_NODE", state)

    site.others["prom"] = with_exporter("prom")
    for elsewhere in ("", "cp"):
        site.variables = {"monitoring_host": elsewhere}
        assert site.run("uninstall").status == 0
        assert site.log("prom") == []
    site.variables = {"monitoring_host": "prom"}
    assert site.run("uninstall", "--limit=w1").status == 0
    assert site.log("prom") == []  # it is of the whole cluster
    # Told to the cluster's hosts only, as group_vars of theirs do.
    site.variables, site.control_plane["monitoring_host"] = {}, "prom"
    gone = site.run("uninstall")
    assert gone.status == 0, gone.output
    assert site.state("prom")["standing"] == []
    # On the controller, and on a host that the inventory does not have: it is reached by what holds for all.
    site.control_plane["monitoring_host"] = "localhost"
    site.local = with_exporter("localhost")
    site.hosts["w1"]["monitoring_host"] = "outside"
    site.variables = with_exporter("outside")
    gone = site.run("uninstall")
    assert gone.status == 0, gone.output
    assert site.state("localhost")["standing"] == site.state("outside")["standing"] == []


def test_an_uninstall_of_one_node_leaves_what_is_of_the_whole_cluster(site: Site) -> None:
    on = {"scheduler_enabled": True, "monitoring_enabled": True}
    assert site.run("site", **on, **MOCK).status == 0
    whole = sorted(site.state("localhost")["standing"])
    assert whole == ["kube_objects monitoring", "kube_objects scheduler"]
    limited = site.run("uninstall", "--limit=w1")
    assert limited.status == 0, limited.output
    assert sorted(site.state("localhost")["standing"]) == whole
    agents = {name: [one for one in site.state(name)["standing"] if "agent_service" in one] for name in ("w1", "w2")}
    assert agents == {"w1": [], "w2": ["agent_service device_plugin", "agent_service exporter"]}
    both = site.run("uninstall", "--limit=w2,localhost")
    assert both.status == 0, both.output
    assert site.state("localhost")["standing"] == []
