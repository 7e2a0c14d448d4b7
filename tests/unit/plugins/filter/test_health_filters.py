# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The filters of health and repair as Ansible calls them; what they decide is tested where it is decided."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.filter import (
    health_report,
    repair_report,
    repair_step,
    site_report,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import found

STEP = repair_step.FilterModule().filters()["repair_step"]
HEALTH = health_report.FilterModule().filters()["health_report"]
REPAIR = repair_report.FilterModule().filters()["repair_report"]
SITE = site_report.FilterModule().filters()["site_report"]


def health(*names: str) -> dict[str, Any]:
    return {"findings": [asdict(found(name, "seen")) for name in names]}


def test_the_next_step() -> None:
    ill = health("containerd-stopped", "swap-on", "kubelet-crashing")
    assert STEP(ill) == {"step": "containerd", "why": ""}
    assert STEP(ill, ["containerd"])["why"] == "the step swap would be next, but not while there is containerd-stopped"
    assert STEP(health("swap-on"), ["containerd"], "containerd") == {
        "step": "",
        "why": "the step swap would be next, but repair_max_step is containerd",
    }
    assert STEP(health()) == STEP({"unreachable": True}) == {"step": "", "why": ""}


def test_steps_are_foretold_one_after_the_other() -> None:
    ill = health("containerd-stopped", "swap-on", "kubelet-crashing")
    assert [STEP(ill, taken, "rejoin", True)["step"] for taken in ([], ["containerd"], ["containerd", "swap"])] == [
        "containerd",
        "swap",
        "",
    ]


def test_reports() -> None:
    assert HEALTH({"w": health("swap-on")})["failed"] == ["w"]
    assert HEALTH({"w": health("disk-low")})["failed"] == []
    groups = {"kube_node": ["w"]}
    assert SITE({"w": health("swap-on")}, {}, groups)["failed"] == ["w"]
    assert SITE({"w": health("swap-on")}, {}, groups, True)["failed"] == []
    assert SITE({"w": None}, {}, groups, fail_on="never")["failed"] == []
    assert SITE({"w": health()}, {}, groups)["nodes"]["w"]["agents"] == {}
    account = {"first": health("swap-on"), "last": health(), "steps": ["swap"], "problem": ""}
    assert REPAIR({"w": account}) == {"lines": ["w:", "  found: swap-on", "  done: swap", "  now healthy"], "left": []}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: STEP(health(), [], "reboot"), "repair_step: last is 'reboot'; it must be one of containerd, swap"),
        (lambda: STEP({"findings": [{}]}), "repair_step: not a finding of node_health"),
        (lambda: HEALTH({}, "error"), "health_report: fail_on is 'error'; it must be one of critical, warning"),
        (lambda: HEALTH({"w": {"findings": [1]}}), "health_report: not a finding"),
        (lambda: SITE({}, {}, {}, False, "error"), "site_report: fail_on is 'error'"),
        (lambda: SITE({"w": {"findings": [1]}}, {}, {}), "site_report: not a finding"),
        (lambda: REPAIR({}, "reboot"), "repair_report: last is 'reboot'"),
        (lambda: REPAIR({"w": {"first": {"findings": [1]}}}), "repair_report: not a finding"),
    ],
)
def test_nonsense_is_named(make: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        make()
