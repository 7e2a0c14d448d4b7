# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The reports that people read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import found
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import (
    finding_of,
    health_report,
    repair_report,
)

GONE = {"unreachable": True, "msg": 'Failed to connect to the "host"'}


def health(*names: str) -> dict[str, Any]:
    return {"findings": [asdict(found(name, "this was seen")) for name in names]}


def account(first: dict[str, Any], last: dict[str, Any], *steps: str, problem: str = "") -> dict[str, Any]:
    return {"first": first, "last": last, "steps": list(steps), "problem": problem}


def test_a_finding_survives_json() -> None:
    (value,) = health("swap-on")["findings"]
    assert finding_of({**value, "steps": list(value["steps"]), "mendable": True}) == found("swap-on", "this was seen")


@pytest.mark.parametrize("value", [{}, {"id": "x"}, {**health("swap-on")["findings"][0], "steps": None}])
def test_what_is_no_finding_is_said(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a finding of node_health"):
        finding_of(value)


def test_health_of_many() -> None:
    well = {f"w{number:02}": health() for number in range(1, 199)}
    hosts = {
        **well,
        "cordoned": health("node-cordoned"),
        "ill": health("swap-on", "clock-unsynchronized"),
        "dead": GONE,
    }
    report = health_report({**hosts, "lost": None}, "critical")
    assert report["failed"] == ["ill", "dead", "lost"]
    assert report["lines"][:3] == [
        "node health: 202 nodes, 199 healthy, 1 not, 2 not looked at",
        "w[01-99], w[100-198] (198 hosts): healthy",
        "cordoned: 1 notice",
    ]
    assert report["healthy"][-1] == "cordoned"
    text = "\n".join(report["lines"])
    assert "ill: 1 critical, 1 warning\n  critical [swap-on] this was seen" in text
    assert "-> swapoff -a, and take it out of what turns it on at boot. (the repair does it: step swap)" in text
    assert "dead: unreachable: Failed to connect to the 'host'" in text
    assert "lost: it fell out of the play" in text
    assert max(map(len, report["lines"])) <= 110


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [
        ("never", []),
        ("critical", ["c"]),
        ("warning", ["c", "w"]),
        ("notice", ["c", "w", "n"]),
    ],
)
def test_what_fails_is_the_users_choice(fail_on: str, failed: list[str]) -> None:
    hosts = {"c": health("swap-on"), "w": health("disk-low"), "n": health("node-cordoned"), "g": health()}
    assert health_report(hosts, fail_on)["failed"] == failed


def test_found_done_and_left() -> None:
    report = repair_report(
        {
            "well": account(health("clock-unsynchronized"), health("clock-unsynchronized")),
            "mended": account(health("containerd-stopped", "swap-on"), health(), "containerd", "swap"),
            "stuck": account(health("kubelet-crashing"), health("kubelet-crashing"), "restart"),
            "failed": account(health("swap-on"), health("swap-on"), "swap", problem="Turn swap off: no memory"),
            "vanished": account(health("swap-on"), GONE, "swap"),
            "dead": account(GONE, GONE),
            "lost": None,
        },
        "restart",
    )
    assert report["left"] == ["stuck", "failed", "vanished", "dead", "lost"]
    assert report["lines"] == [
        "well: healthy, not touched",
        "mended:",
        "  found: containerd-stopped, swap-on",
        "  done: containerd, swap",
        "  now healthy",
        "stuck:",
        "  found: kubelet-crashing",
        "  done: restart",
        "  left:",
        "    critical [kubelet-crashing] this was seen",
        "      -> journalctl -u kubelet has the reason. (the repair does it: step restart)",
        "  the step rejoin would be next, but repair_max_step is restart",
        "failed:",
        "  found: swap-on",
        "  done: swap",
        "  failed: Turn swap off: no memory",
        "  left:",
        "    critical [swap-on] this was seen",
        "      -> swapoff -a, and take it out of what turns it on at boot. (the repair does it: step swap)",
        "  the steps that should mend swap-on were taken and did not",
        "vanished:",
        "  found: swap-on",
        "  done: swap",
        "  left: not known, unreachable: Failed to connect to the 'host'",
        "dead: skipped, unreachable: Failed to connect to the 'host'",
        "lost: skipped, it fell out of the play before it was looked at",
    ]


def test_check_mode_names_the_steps() -> None:
    report = repair_report({"w": account(health("swap-on"), health("swap-on"), "swap")}, check_mode=True)
    assert report == {"lines": ["w:", "  found: swap-on", "  would do: swap"], "left": []}


def test_the_end_of_a_crashed_module_is_told() -> None:
    crashed = {"msg": "MODULE FAILURE", "module_stderr": "Traceback\n  File x\nOSError: the disk is gone\n"}
    assert (
        health_report({"w": crashed}, "never")["lines"][1]
        == "w: not looked at: MODULE FAILURE: OSError: the disk is gone"
    )
