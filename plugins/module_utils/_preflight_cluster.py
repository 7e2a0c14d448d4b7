# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What can be judged only over all hosts: groups of the inventory, names that must differ, versions that must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import Finding, demote, found

WORKERS, CONTROL_PLANE = "kube_node", "kube_control_plane"
INVENTORY = "inventory"  # in place of a host, for what is wrong with no one host


@dataclass(frozen=True, slots=True)
class HostResult:
    """One host's findings, and what it must not share with another; empty where the host told nothing."""

    host: str
    node_name: str
    machine_id: str
    kubelet_version: str
    findings: tuple[Finding, ...]


def not_looked_at(host: str) -> HostResult:
    """A host of the play that told nothing must not pass for a good one."""
    return HostResult(host, "", "", "", (found("not-looked-at", "it fell out of the play before it was looked at"),))


def all_findings(
    results: Sequence[HostResult], groups: Mapping[str, Sequence[str]], skip: Iterable[str] = ()
) -> list[tuple[str, Finding]]:
    """What is wrong with the inventory, with each host, and between hosts, in this order."""
    names = set(skip)
    across = [(INVENTORY, finding) for finding in check_groups(groups)]
    between = check_cluster(results)
    alone = [(result.host, finding) for result in results for finding in result.findings]
    return [*_demoted(across, names), *alone, *_demoted(between, names)]


def _demoted(findings: Iterable[tuple[str, Finding]], skip: set[str]) -> list[tuple[str, Finding]]:
    return [(host, one) for host, finding in findings for one in demote([finding], skip)]


def check_groups(groups: Mapping[str, Sequence[str]]) -> list[Finding]:
    findings = []
    if not groups.get(WORKERS):
        findings.append(found("group-kube-node", f"the inventory's group {WORKERS} is missing or empty"))
    if not groups.get(CONTROL_PLANE):
        findings.append(found("group-kube-control-plane", f"the inventory's group {CONTROL_PLANE} is missing or empty"))
    return findings


def check_cluster(results: Sequence[HostResult]) -> list[tuple[str, Finding]]:
    """Findings with the host that each is about."""
    findings = []
    for name, hosts in _shared(results, lambda result: result.node_name):
        others = f"the node name {name} is that of {len(hosts)} hosts"
        findings += [(host, found("node-name-twice", others)) for host in hosts]
    for machine_id, hosts in _shared(results, lambda result: result.machine_id):
        others = f"the machine ID {machine_id} is that of {len(hosts)} hosts"
        findings += [(host, found("machine-id-twice", others)) for host in hosts]
    findings += _check_versions(results)
    return findings


def _shared(results: Iterable[HostResult], key: Callable[[HostResult], str]) -> list[tuple[str, list[str]]]:
    hosts_by_key = defaultdict(list)
    for result in results:
        if key(result):
            hosts_by_key[key(result)].append(result.host)
    return [(value, hosts) for value, hosts in hosts_by_key.items() if len(hosts) > 1]


def _check_versions(results: Sequence[HostResult]) -> list[tuple[str, Finding]]:
    """More than three minors apart can't be a rolling upgrade."""
    minors = {}
    for result in results:
        parts = result.kubelet_version.split(".")
        if len(parts) >= 2 and parts[1].isdigit():
            minors[result.host] = int(parts[1])
    newest = max(minors.values(), default=0)
    return [
        (host, found("kubelet-versions", f"the kubelet is 1.{number}, the newest here 1.{newest}"))
        for host, number in minors.items()
        if newest - number > 3
    ]
