# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which step of the repair comes next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import (
    CHECKS,
    CRITICAL,
    STEPS,
    Finding,
    found,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_ladder import (
    COMES_WITH_REJOIN,
    blocked_by,
    foretell,
    is_healthy,
    next_step,
    should_wait,
    why_not,
)

FINDINGS = st.lists(st.sampled_from(sorted(CHECKS)), unique=True, max_size=6).map(
    lambda names: [found(name, "seen") for name in names]
)
TAKEN = st.lists(st.sampled_from(STEPS), unique=True)


def some(*names: str) -> list[Finding]:
    return [found(name, "seen") for name in names]


@pytest.mark.parametrize(
    ("names", "taken", "last", "step"),
    [
        ([], [], "rejoin", ""),
        (["clock-unsynchronized", "node-cordoned"], [], "rejoin", ""),
        (["swap-on", "containerd-stopped", "kubelet-stopped"], [], "rejoin", "containerd"),
        (["swap-on", "kubelet-stopped"], ["containerd"], "rejoin", "swap"),
        (["kubelet-stopped"], ["containerd", "swap"], "rejoin", "restart"),
        (["swap-on"], ["swap"], "rejoin", ""),  # it did not help: nothing higher would
        (["swap-on", "kubelet-stopped"], ["swap"], "rejoin", ""),
        (["swap-at-boot", "kubelet-stopped"], ["swap"], "rejoin", "restart"),  # not critical, so no reason to stop
        (["kubelet-crashing"], ["restart"], "rejoin", "rejoin"),
        (["kubelet-crashing"], ["restart"], "restart", ""),
        (["kubelet-kubeconfig", "kubelet-crashing"], [], "rejoin", "kubelet"),
        (["kubelet-kubeconfig", "kubelet-crashing"], ["kubelet"], "rejoin", "rejoin"),
        (["kubelet-identity-lost", "kubelet-crashing"], [], "rejoin", "rejoin"),  # a restart brings no identity back
        (["swap-at-boot", "kubelet-crashing"], ["swap"], "rejoin", "restart"),
        (["node-missing"], [], "swap", ""),
        (["kubelet-certificate-ended"], [], "rejoin", "rejoin"),
        (["kubelet-certificate-ended", "clock-skew"], [], "rejoin", ""),  # a wrong clock makes good certificates bad
        (["kubelet-identity-lost", "api-unreachable"], [], "rejoin", ""),
        (["kubelet-identity-lost", "not-looked-at"], [], "rejoin", ""),
        (["kubelet-identity-lost", "cni-missing", "disk-low"], [], "rejoin", "rejoin"),
        (["kubelet-identity-lost", "disk-full"], [], "rejoin", ""),
        (["rejoin-unfinished", "kubelet-stopped", "kubelet-config"], [], "rejoin", "rejoin"),
        (["rejoin-unfinished", "kubelet-stopped"], [], "restart", ""),
        (["rejoin-unfinished", "swap-on", "node-missing"], [], "rejoin", "swap"),
    ],
)
def test_the_next_step(names: list[str], taken: list[str], last: str, step: str) -> None:
    findings = some(*names)
    assert next_step(findings, taken, last) == step
    assert bool(why_not(findings, taken, last)) == (not step and any(finding.mendable for finding in findings))


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["containerd-stopped", "swap-on", "kubelet-crashing", "node-not-ready"], ["containerd", "swap"]),
        (["kubelet-crashing"], ["restart"]),
        (["kubelet-kubeconfig", "kubelet-crashing"], ["kubelet"]),
        (["kubelet-identity-lost", "clock-skew"], []),
        (["kubelet-identity-lost", "kubelet-stopped", "swap-at-boot"], ["swap", "restart", "rejoin"]),
        (["cni-missing"], []),
    ],
)
def test_what_a_run_would_do(names: list[str], steps: list[str]) -> None:
    assert foretell(some(*names)) == steps


@pytest.mark.parametrize(
    ("names", "waits"),
    [
        ([], False),
        (["swap-at-boot"], False),
        (["kubelet-crashing", "clock-unsynchronized"], True),
        (["kubelet-crashing", "swap-on"], False),
        (["cni-missing"], True),
        (["node-missing", "device-sockets"], True),
    ],
)
def test_time_is_given_where_it_may_help(names: list[str], waits: bool) -> None:
    assert should_wait(some(*names)) is waits


def test_what_a_step_left_is_no_reason_not_to_wait() -> None:
    """Or a node whose agent stays broken would be joined again while its kubelet only starts."""
    findings = some("agent-failed", "node-not-ready")
    assert not should_wait(findings)
    assert should_wait(findings, ["restart"])


def test_why_not() -> None:
    assert why_not(some("kubelet-crashing"), ["restart"], "restart") == (
        "the step rejoin would be next, but repair_max_step is restart"
    )
    assert why_not(some("kubelet-identity-lost", "api-unreachable"), [], "rejoin") == (
        "the step rejoin would be next, but not while there is api-unreachable"
    )
    assert why_not(some("swap-on"), ["swap"], "rejoin") == "the steps that should mend swap-on were taken and did not"
    assert why_not(some("swap-on", "kubelet-stopped"), ["swap"], "rejoin") == (
        "the step restart would be next, but not while there is swap-on"
    )


@given(FINDINGS, TAKEN, st.sampled_from(STEPS))
def test_a_step_is_wanted_new_and_within_bounds(findings: list[Finding], taken: list[str], last: str) -> None:
    step = next_step(findings, taken, last)
    if is_healthy(findings):
        assert step == ""
    if step:
        assert step not in taken
        assert STEPS.index(step) <= STEPS.index(last)
        assert any(step in finding.steps for finding in findings)
        assert step not in ("kubelet", "restart") or not any(one.id == "rejoin-unfinished" for one in findings)
    if step == "rejoin":
        assert not blocked_by(findings, taken, step)
        for finding in findings:
            assert finding.severity != CRITICAL or "rejoin" in finding.steps or finding.id in COMES_WITH_REJOIN


@given(FINDINGS, st.sampled_from(STEPS))
def test_the_climb_goes_up_and_ends(findings: list[Finding], last: str) -> None:
    """Also where no step mends anything."""
    taken: list[str] = []
    while step := next_step(findings, taken, last):
        assert not taken or STEPS.index(step) > STEPS.index(taken[-1])
        taken.append(step)
    assert len(taken) <= len(STEPS)


@given(FINDINGS)
def test_what_is_foretold_is_what_a_run_begins_with(findings: list[Finding]) -> None:
    told = foretell(findings)
    assert told == sorted(set(told), key=STEPS.index)
    assert told[:1] == [step for step in [next_step(findings)] if step]
