# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The ladder of the repair: which step comes next for what is found, and when waiting comes before it.

Steps go from what costs nothing to what costs a drain, and a finding names those that may mend it. A step is taken
once. What may pass by itself, such as a kubelet that fails, counts only when nothing else is left that explains it.

What stays after all its steps blocks the higher ones, if it is critical: on broken ground they would only make
it worse. That counts most for the last step, which takes the node out of the cluster: it is taken only when all that
is critical may be mended by it, and when every part of the node could be looked at.

A rejoin that was begun is finished before the kubelet is touched: one that is started in the middle of it would
register a bare Node in place of the one whose labels are saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import (
    CRITICAL,
    KUBELET,
    REJOIN,
    RESTART,
    STEPS,
    Finding,
)

UNSEEN = "not-looked-at"
UNFINISHED = "rejoin-unfinished"
COMES_WITH_REJOIN = ("cni-missing",)  # critical, and mended by no step, but no reason against joining again


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Nothing is critical, and there is nothing that the repair could mend."""
    return not any(finding.severity == CRITICAL or finding.mendable for finding in findings)


def should_wait(findings: Sequence[Finding], taken: Sequence[str] = ()) -> bool:
    """Only time is needed yet, as far as can be seen: nothing is there to stay that a step might still mend."""
    return any(finding.passing for finding in findings) and all(
        finding.passing for finding in findings if _untaken(finding, taken)
    )


def next_step(findings: Sequence[Finding], taken: Sequence[str] = (), last: str = REJOIN) -> str:
    """The lowest step that is wanted and not taken; empty: none is, or none may be taken."""
    step = _lowest(findings, taken)
    if not step or STEPS.index(step) > STEPS.index(last) or blocked_by(findings, taken, step):
        return ""
    return step


def blocked_by(findings: Sequence[Finding], taken: Sequence[str], step: str) -> list[str]:
    """IDs of what forbids a step."""
    findings = _as_if_begun(findings)
    failed = [
        finding.id
        for finding in findings
        if finding.severity == CRITICAL and finding.mendable and not _untaken(finding, taken)
    ]
    if step != REJOIN:
        return failed
    against = [
        finding.id
        for finding in findings
        if finding.id == UNSEEN
        or (finding.severity == CRITICAL and REJOIN not in finding.steps and finding.id not in COMES_WITH_REJOIN)
    ]
    return list(dict.fromkeys(failed + against))


def foretell(findings: Sequence[Finding], last: str = REJOIN) -> list[str]:
    """The steps that a run would take now, as far as it can be known: what has a cause goes with it."""
    steps: list[str] = []
    left = _causes(findings, steps)
    while step := next_step(left, steps, last):
        steps.append(step)
        left = [finding for finding in _as_if_begun(left) if step not in finding.steps]
    return steps


def why_not(findings: Sequence[Finding], taken: Sequence[str], last: str) -> str:
    """Why no further step is taken, in words; empty where none is wanted."""
    step = _lowest(findings, taken)
    if not step:
        tried = [finding.id for finding in findings if finding.mendable]
        return f"the steps that should mend {', '.join(tried)} were taken and did not" if tried else ""
    if STEPS.index(step) > STEPS.index(last):
        return f"the step {step} would be next, but repair_max_step is {last}"
    blocks = blocked_by(findings, taken, step)
    return f"the step {step} would be next, but not while there is {', '.join(blocks)}" if blocks else ""


def units_of(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """What the step restart is to start, and what to restart because it runs and is not well."""
    named = [finding for finding in findings if RESTART in finding.steps and finding.unit]
    restart = dict.fromkeys(finding.unit for finding in named if finding.id not in ONLY_START)
    start = dict.fromkeys(finding.unit for finding in named if finding.unit not in restart)
    return {"start": list(start), "restart": list(restart)}


ONLY_START = ("kubelet-masked", "kubelet-disabled", "kubelet-stopped")


def _lowest(findings: Sequence[Finding], taken: Sequence[str]) -> str:
    wanted = {_untaken(finding, taken) for finding in _causes(_as_if_begun(findings), taken)}
    return next((name for name in STEPS if name in wanted), "")


def _causes(findings: Sequence[Finding], taken: Sequence[str]) -> Sequence[Finding]:
    """Without what may pass by itself, as long as there is something to mend that does not."""
    if not any(_untaken(finding, taken) and not finding.passing for finding in findings):
        return findings
    return [finding for finding in findings if not (finding.mendable and finding.passing)]


def _as_if_begun(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Where a rejoin was begun, only its end mends what is wrong with the kubelet."""
    if not any(finding.id == UNFINISHED for finding in findings):
        return findings
    return [
        replace(finding, steps=(REJOIN,)) if {KUBELET, RESTART} & set(finding.steps) else finding
        for finding in findings
    ]


def _untaken(finding: Finding, taken: Sequence[str]) -> str:
    """The first step for it that is above all those that were taken for it."""
    return next((step for step in finding.steps if step not in taken), "")
