# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The health of nodes as lines for people: of one node for an ad hoc call, of all nodes for the playbooks.

Healthy nodes are one line, however many they are; each other one has a line for every finding and its remedy. Lines
carry no quotes or backslashes, because Ansible prints them as JSON.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import (
    CRITICAL,
    REJOIN,
    SEVERITIES,
    WARNING,
    Finding,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_ladder import is_healthy, why_not
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import last_line
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_report import WIDTH, count, host_list


def finding_of(value: Mapping[str, Any]) -> Finding:
    """A finding as it came back from JSON; ValueError names what is wrong with it."""
    try:
        words = {key: str(value[key]) for key in ("id", "severity", "evidence", "remedy")}
        steps = tuple(str(step) for step in value["steps"])
        return Finding(**words, steps=steps, passing=bool(value["passing"]), unit=str(value["unit"]))
    except (KeyError, TypeError) as problem:
        raise ValueError(f"not a finding of node_health ({problem!r}): {value!r}") from None


def summary(findings: Sequence[Finding]) -> str:
    """`2 critical, 1 warning`; `healthy` where there is nothing worse than a notice."""
    numbers = [(severity, sum(finding.severity == severity for finding in findings)) for severity in SEVERITIES]
    said = [count(number, name) if name != CRITICAL else f"{number} {name}" for name, number in numbers if number]
    return ", ".join(said) if said else "healthy"


def node_lines(findings: Iterable[Finding]) -> list[str]:
    """Two lines or more for each finding: what, and what to do."""
    lines: list[str] = []
    for finding in findings:
        lines += _wrapped(f"{finding.severity} [{finding.id}] {finding.evidence}", "  ", "    ")
        step = f" (the repair does it: step {finding.steps[0]})" if finding.steps else ""
        lines += _wrapped(f"{finding.remedy}{step}", "    -> ", "       ")
    return lines


def health_report(hosts: Mapping[str, Mapping[str, Any] | None], fail_on: str) -> dict[str, Any]:
    """All nodes of a play: `hosts` has what node_health said of each, or what Ansible said in its place.

    `failed` are the hosts with a finding as bad as `fail_on` ("never": none), and those that could not be looked at.
    """
    lost = {host: reason(result) for host, result in hosts.items() if not result or "findings" not in result}
    told = {
        host: [finding_of(value) for value in result["findings"]]
        for host, result in hosts.items()
        if result and host not in lost
    }
    well = [host for host, findings in told.items() if not _is_bad(findings, WARNING)]
    counts = f"{len(well)} healthy, {len(told) - len(well)} not, {len(lost)} not looked at"
    lines = [f"node health: {count(len(hosts), 'node')}, {counts}"]
    silent = [host for host in well if not told[host]]
    if silent:
        lines += _wrapped(f"{host_list(silent)}: healthy", "", "  ")
    for host, findings in told.items():
        if findings:
            lines += [f"{host}: {summary(findings)}", *node_lines(findings)]
    for host, words in lost.items():
        lines += _wrapped(f"{host}: {words}", "", "  ")
    failed = [host for host in hosts if fail_on != "never" and (host in lost or _is_bad(told[host], fail_on))]
    return {"lines": [plain(line) for line in lines], "failed": failed, "healthy": well}


def _is_bad(findings: Iterable[Finding], fail_on: str) -> bool:
    worst = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return any(finding.severity in worst for finding in findings)


def repair_report(
    hosts: Mapping[str, Mapping[str, Any] | None], highest: str = REJOIN, check_mode: bool = False
) -> dict[str, Any]:
    """What was found, done and left on each node. `hosts`: first, last (results of node_health), steps, problem."""
    lines: list[str] = []
    left: list[str] = []
    well: list[str] = []
    for host, account in hosts.items():
        told = account or {}
        first, after = told.get("first") or {}, told.get("last") or {}
        steps = [str(step) for step in told.get("steps") or ()]
        if "findings" not in first:
            left.append(host)
            lines += _wrapped(f"{host}: skipped, {reason(first)}", "", "  ")
            continue
        before = [finding_of(value) for value in first["findings"]]
        if not steps and is_healthy(before) and not told.get("problem"):
            well.append(host)
            continue
        lines += [f"{host}:", *_wrapped(f"found: {', '.join(f.id for f in before) or 'nothing'}", "  ", "    ")]
        verb = "would do" if check_mode else "done"
        lines += _wrapped(f"{verb}: {', '.join(steps) or 'nothing'}", "  ", "    ")
        if check_mode:
            continue
        remaining = [finding_of(value) for value in after["findings"]] if "findings" in after else None
        why = why_not(remaining or [], steps, highest)
        lines += _outcome(remaining, str(told.get("problem") or ""), why, after)
        if remaining is None or told.get("problem") or not is_healthy(remaining):
            left.append(host)
    if well:
        lines = [*_wrapped(f"{host_list(well)}: healthy, not touched", "", "  "), *lines]
    return {"lines": [plain(line) for line in lines], "left": left}


def _outcome(remaining: list[Finding] | None, problem: str, why: str, after: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if problem:
        lines += _wrapped(f"failed: {problem}", "  ", "    ")
    if remaining is None:
        return [*lines, *_wrapped(f"left: not known, {reason(after)}", "  ", "    ")]
    if is_healthy(remaining):
        return [*lines, "  now healthy"]
    lines += ["  left:", *(f"  {line}" for line in node_lines(remaining))]
    return [*lines, *(_wrapped(why, "  ", "    ") if why else [])]


def reason(result: Mapping[str, Any] | None) -> str:
    """Why there is no answer of node_health, in Ansible's words."""
    if not result:
        return "it fell out of the play before it was looked at"
    said = [str(result.get("msg", "no words were given")), last_line(str(result.get("module_stderr", "")))]
    words = " ".join(": ".join(filter(None, said)).split())
    return f"unreachable: {words}" if result.get("unreachable") else f"not looked at: {words}"


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def plain(line: str) -> str:
    """As Ansible can print it in JSON."""
    return line.replace('"', "'").replace("\\", "/")
