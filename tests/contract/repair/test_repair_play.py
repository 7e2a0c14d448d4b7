# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""health.yml and repair.yml by a real ansible-playbook, over nodes whose modules are doubles (module_double.py).

What the real modules do to real nodes, the scenario molecule/repair shows; here many nodes with many faults go through
the ladder at once: which steps are taken, in which order, where it stops, and what the report says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import CHECKS, STEPS, found
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible
from ansible_collections.colocation.kubernetes.tests.contract.doubled_collection import (
    dead_host,
    doubled_collection,
    file_host,
)

DOUBLED = (
    "node_health",
    "node_package",
    "containerd_config",
    "node_unit",
    "node_swap",
    "kubelet_mend",
    "rejoin_double",
)
MADE = {"roles/rejoin/tasks/main.yml": "- colocation.kubernetes.rejoin_double:\n"}
UNITS = {"kubelet-crashing": "kubelet.service", "kubelet-stopped": "kubelet.service"}
TABLE = {name: asdict(found(name, f"{name} was seen", unit=UNITS.get(name, ""))) for name in CHECKS}


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    output: str

    @property
    def report(self) -> str:
        found = re.search(r'"msg": \[\n(.*?)\n    \]', self.output, re.DOTALL)
        assert found, self.output
        lines: list[str] = json.loads(f"[{found[1]}]")
        return "\n".join(lines)

    def of(self, host: str) -> str:
        """The lines about one host, in one."""
        found = re.search(rf"^{host}:((?:.*\n?)(?:  .*\n?)*)", self.report, re.MULTILINE)
        assert found, self.report
        return " ".join(found[1].split())

    def changed(self, host: str) -> int:
        recap = re.search(rf"^{host} .*changed=(\d+)", self.output, re.MULTILINE)
        assert recap, self.output
        return int(recap[1])


class Site:
    """A collection whose modules are doubles, and nodes that are files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.hosts: dict[str, dict[str, Any]] = {}
        double = Path(__file__).with_name("module_double.py")
        doubled_collection(place, double, DOUBLED, ("node_prep", "preflight"), MADE)

    def node(self, name: str, *findings: str, heals: dict[str, list[str]] | None = None, **more: Any) -> None:
        """A node with findings that each go with its first step, or with those that `heals` says."""
        healed = heals or {step: [one for one in findings if CHECKS[one].steps[:1] == (step,)] for step in STEPS}
        state = {"findings": findings, "table": TABLE, "heals": healed, "breaks": (), "log": [], "records": ()} | more
        self.hosts[name] = file_host(self.place, name, "REPAIR_NODE", state)

    def dead(self, name: str) -> None:
        self.hosts[name] = dead_host()

    def log(self, name: str) -> list[str]:
        """What was done to a node, since the last question."""
        path = self.place / f"{name}.json"
        state = json.loads(path.read_text())
        told: list[str] = state["log"]
        path.write_text(json.dumps({**state, "log": []}))
        return told

    def run(self, playbook: str, *arguments: str, **variables: Any) -> Run:
        (self.place / "hosts.json").write_text(json.dumps({"kube_node": {"hosts": self.hosts}}))
        return Run(
            *run_ansible(
                self.place,
                "ansible-playbook",
                f"--inventory={self.place / 'hosts.json'}",
                f"--extra-vars={json.dumps({'ansible_become': False, **variables})}",
                *arguments,
                f"colocation.kubernetes.{playbook}",
                collections=self.place,
            )
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield Site(tmp_path)


IDENTITY = {"rejoin": ["kubelet-identity-lost"]}


def test_each_node_climbs_as_far_as_it_has_to(site: Site) -> None:
    site.dead("a_dead")  # the first host: neither the bound's check nor the report must depend on it
    site.node("alone", "clock-unsynchronized", "node-cordoned", server="https://10.0.0.1:6443")
    site.node("both", "containerd-stopped", "swap-on", "kubelet-crashing", heals={
        "containerd": ["containerd-stopped"], "swap": ["swap-on", "kubelet-crashing"],
    })  # fmt: skip
    site.node("broken", "swap-on", "kubelet-stopped", breaks=["swap"])
    site.node("files", "kubelet-kubeconfig")
    site.node("gone", "containerd-missing", heals={"install": ["containerd-missing"]})
    site.node("halfway", "rejoin-unfinished", heals={"rejoin": ["rejoin-unfinished"]})
    site.node("keeps", "swap-on")
    site.hosts["keeps"]["node_prep_swap"] = "keep"
    site.node("lost", "kubelet-identity-lost", heals=IDENTITY)
    site.node("stubborn", "kubelet-crashing", heals={"rejoin": ["kubelet-crashing"]})
    site.node("unmended", "swap-on", "kubelet-stopped", heals={"swap": []})
    site.node("walled", "kubelet-identity-lost", "api-unreachable", heals=IDENTITY)
    foretold = site.run("repair", "--check")
    assert foretold.of("both") == "found: containerd-stopped, swap-on, kubelet-crashing would do: containerd, swap"
    assert foretold.of("lost") == "found: kubelet-identity-lost would do: rejoin"
    assert site.log("both") == ["containerd check", "containerd-unit check", "swap check"]
    assert site.log("lost") == ["rejoin check"]
    for name in set(site.hosts) - {"a_dead"}:
        assert all(call.endswith(" check") for call in site.log(name))

    run = site.run("repair")
    assert run.status != 0
    assert run.report.startswith("alone: healthy, not touched\n")
    assert {name: site.log(name) for name in site.hosts if name != "a_dead"} == {
        "alone": [],
        "both": ["containerd", "containerd-unit", "swap"],
        "broken": ["swap"],
        "files": ["kubelet https://10.0.0.1:6443"],
        "gone": ["install", "containerd", "containerd-unit"],
        "halfway": ["rejoin"],
        "keeps": [],
        "lost": ["rejoin"],
        "stubborn": ["restart", "rejoin"],
        "unmended": ["swap"],
        "walled": [],
    }
    assert run.of("both").endswith("done: containerd, swap now healthy")
    assert "failed: Turn swap off for good: swap can't be done left: critical [swap-on]" in run.of("broken")
    assert "failed: See that nobody wants swap: node_prep_swap is keep, but" in run.of("keeps")
    assert run.of("stubborn") == "found: kubelet-crashing done: restart, rejoin now healthy"
    assert run.of("unmended").endswith("the step restart would be next, but not while there is swap-on")
    assert run.of("walled").endswith("the step rejoin would be next, but not while there is api-unreachable")
    assert run.of("a_dead").startswith("skipped, unreachable: ")
    assert "Not well, or not looked at: a_dead, broken, keeps, unmended, walled;" in run.output
    assert (run.changed("alone"), run.changed("walled"), run.changed("a_dead")) == (0, 0, 0)

    again = site.run("repair", "--limit=alone,both,files,gone,lost,stubborn")
    assert again.status == 0
    assert "alone, both, files, gone, lost, stubborn (6 hosts): healthy, not touched" in again.report
    assert all(again.changed(name) == 0 and site.log(name) == [] for name in ("both", "lost", "stubborn"))


def test_notes_of_cni_that_are_cut_go_and_others_stay(site: Site) -> None:
    cut, whole = site.place / "cut", site.place / "whole"
    cut.touch()
    whole.touch()
    site.node("resetted", "cni-record", heals={}, records=[str(cut)])
    site.node("well", records=[str(whole)])
    foretold = site.run("repair", "--check")
    assert foretold.of("resetted") == "found: cni-record would do: containerd"
    assert cut.exists()
    run = site.run("repair")
    assert run.status == 0, run.output
    assert run.of("resetted") == "found: cni-record done: containerd now healthy"
    assert not cut.exists() and whole.exists()
    assert site.log("resetted") == []  # nothing else of a containerd that is well is touched


def test_no_node_is_joined_again_after_one_that_did_not_come_back(site: Site) -> None:
    # The role leaves what it came to, and nothing where it refuses at its door. Nothing was done to these three.
    for name, outcome in (("a_refused", ""), ("a_seen", "planned"), ("a_undone", "undone")):
        site.node(name, "kubelet-identity-lost", breaks=["rejoin"])
        site.hosts[name] |= {"rejoin_outcome": outcome} if outcome else {}
    site.node("b_well", "kubelet-identity-lost", heals=IDENTITY)
    site.node("c_ill", "kubelet-identity-lost", heals={"rejoin": []})
    site.hosts["c_ill"]["rejoin_outcome"] = "failed"
    site.node("d_next", "kubelet-identity-lost", heals=IDENTITY)
    site.node("e_last", "kubelet-identity-lost", heals=IDENTITY)
    foretold = site.run("repair", "--check")
    assert all(foretold.of(name).endswith("would do: rejoin") for name in site.hosts)
    assert [site.log(name) for name in site.hosts] == [["rejoin check"]] * 7
    run = site.run("repair")
    assert run.status != 0
    assert [site.log(name) for name in site.hosts] == [["rejoin"]] * 5 + [[], []]
    assert "done: rejoin now healthy" in run.of("b_well")
    for name in ("d_next", "e_last"):
        assert "done: nothing failed: it was not joined again, because c_ill did not come back left:" in run.of(name)
    assert "Not well, or not looked at: a_refused, a_seen, a_undone, c_ill, d_next, e_last;" in run.output


def test_the_climb_is_bounded(site: Site) -> None:
    site.node("lost", "kubelet-identity-lost", heals=IDENTITY)
    site.node("swapping", "swap-on", "kubelet-crashing")
    wrong = site.run("repair", repair_max_step="reboot")
    assert wrong.status != 0 and "repair_max_step is reboot; it must be containerd, swap" in wrong.output
    run = site.run("repair", repair_max_step="swap")
    assert run.status != 0
    assert (site.log("lost"), site.log("swapping")) == ([], ["swap"])
    assert run.of("lost").endswith("the step rejoin would be next, but repair_max_step is swap")
    assert run.of("swapping").endswith("the step restart would be next, but repair_max_step is swap")


def test_health_of_all_nodes(site: Site) -> None:
    site.dead("a_dead")
    site.node("ill", "swap-on", "disk-low")
    site.node("w1")
    site.node("w2")
    site.node("warned", "disk-low")
    run = site.run("health")
    assert run.report.splitlines()[0] == "node health: 5 nodes, 2 healthy, 2 not, 1 not looked at"
    assert "w1, w2 (2 hosts): healthy" in run.report
    assert run.of("ill").startswith("1 critical, 1 warning critical [swap-on] swap-on was seen -> swapoff -a")
    assert "Not well, or not looked at: a_dead, ill;" in run.output
    check = site.run("health", "--check", health_fail_on="never")
    assert (check.status, check.report) == (0, run.report)
    limited = site.run("health", "--limit=w*", health_fail_on="warning")
    assert limited.status != 0 and "Not well, or not looked at: warned;" in limited.output
    assert [site.log(name) for name in ("ill", "w1", "warned")] == [[], [], []]
