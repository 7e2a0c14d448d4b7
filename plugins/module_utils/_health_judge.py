# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node judged: from one look to its findings, the worst first. Pure.

The services are in `_health_judge_services`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import (
    Agent,
    HealthFacts,
    NodeObject,
    Page,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import (
    CRITICAL,
    NOTICE,
    SEVERITIES,
    WARNING,
    Finding,
    found,
    without_kubeadm,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_judge_services import (
    KUBELET_UNIT,
    check_containerd,
    check_files,
    check_kubelet,
    kubelet_runs,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import skew
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import Disk
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_host import CONTROLLERS, LEAST_INODES
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_services import ANSWERS, minor

REFUSES_CGROUP_V1 = (1, 35)  # failCgroupV1 is true by default
FULL_SHARE, LOW_SHARE = 0.01, 0.10  # of a disk that is free; the kubelet evicts at 10 %
PIDS_SHARE = 0.9
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
OTHER_AUTHORITY = ("issuer certificate", "self-signed", "self signed", "signature failure")
NETWORK_WORDS = ("NetworkPluginNotReady", "cni plugin not initialized", "network is not ready")


@dataclass(frozen=True, slots=True)
class Want:
    """From when on something counts."""

    certificate_days: float = 14.0
    authority_days: float = 90.0
    clock_skew_limit: float = 5.0  # seconds


def judge(facts: HealthFacts, want: Want = Want()) -> list[Finding]:
    """All findings, the worst first; within a severity in the order of causes."""
    findings = [
        *check_containerd(facts),
        *check_swap(facts),
        *check_files(facts, want.certificate_days, want.authority_days),
        *check_kubelet(facts),
        *check_machine(facts),
        *check_clock(facts, want.clock_skew_limit),
        *check_api(facts.api, facts),
        *check_node(facts),
        *check_devices(facts),
        *check_agents(facts),
        *(found("not-looked-at", f"{part}: {why}") for part, why in sorted(facts.blind.items())),
    ]
    why = facts.files.made_otherwise if facts.files else ""
    if why:
        findings = [without_kubeadm(finding, why) for finding in findings]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


# the machine


def check_swap(facts: HealthFacts) -> Iterator[Finding]:
    """Swap is wrong only where the kubelet does not allow it."""
    swap = facts.swap
    if swap is None or (facts.kubelet is not None and not facts.kubelet.fail_swap_on):
        return
    if swap.active:
        yield found("swap-on", f"swap is on: {', '.join(device.name for device in swap.active)}")
    if swap.sources:
        sources = dict.fromkeys(f"{source.where} ({source.kind})" for source in swap.sources)
        yield found("swap-at-boot", f"swap comes on at boot: {', '.join(sources)}")


def check_machine(facts: HealthFacts) -> Iterator[Finding]:
    yield from _check_cgroup(facts)
    checked: set[tuple[int, int, bool]] = set()
    for disk in facts.disks:
        same = (disk.size_mib, disk.free_mib, disk.read_only)  # several paths of one file system count once
        if same not in checked:
            checked.add(same)
            yield from check_disk(disk)
    processes = facts.processes
    if processes is not None and processes.count > processes.limit * PIDS_SHARE:
        yield found("pids-low", f"{processes.count} processes and threads run, {processes.limit} are allowed")


def _check_cgroup(facts: HealthFacts) -> Iterator[Finding]:
    cgroup, kubelet = facts.cgroup, facts.kubelet
    if cgroup is None:
        return
    if cgroup.mode != "v2":
        refuses = True
        if kubelet is not None:
            by_version = (minor(kubelet.version) or REFUSES_CGROUP_V1) >= REFUSES_CGROUP_V1
            refuses = by_version if kubelet.fail_cgroup_v1 is None else kubelet.fail_cgroup_v1
        yield found("cgroup-v1", f"the node runs cgroup {cgroup.mode}", severity=CRITICAL if refuses else WARNING)
        return
    missing = [name for name in CONTROLLERS if name not in cgroup.controllers]
    if missing:
        yield found("cgroup-controllers", f"cgroup v2 is without {', '.join(missing)}")


def check_disk(disk: Disk) -> Iterator[Finding]:
    figures = f"{disk.path} has {disk.free_mib} MiB free of {disk.size_mib}"
    if disk.read_only:
        yield found("disk-read-only", f"{disk.path} is on a read-only file system")
    elif disk.free_mib < disk.size_mib * FULL_SHARE:
        yield found("disk-full", figures)
    elif disk.free_mib < disk.size_mib * LOW_SHARE:
        yield found("disk-low", figures)
    elif disk.inodes_free is not None and disk.inodes_free < LEAST_INODES:
        yield found("disk-inodes", f"{disk.path} has {disk.inodes_free} inodes free")


def check_clock(facts: HealthFacts, limit: float) -> Iterator[Finding]:
    """Against the API server's clock, which it tells to the second; it counts more than whether somebody keeps it."""
    ahead = ahead_of_server(facts)
    if ahead is not None and abs(ahead) > limit:
        direction = "ahead of" if ahead > 0 else "behind"
        yield found("clock-skew", f"the clock is {abs(ahead):.0f} s {direction} the API server's")
    elif facts.clock is not None and facts.clock.synchronized is False:
        yield found("clock-unsynchronized", f"nobody keeps the clock in step, says {facts.clock.told_by}")


def ahead_of_server(facts: HealthFacts) -> float | None:
    """Seconds that the node's clock is surely ahead of the API server's; None where that is not known."""
    if facts.api is None or facts.api.clock is None or facts.api_asked is None:
        return None
    before, after = facts.api_asked
    # Its moment lies in the second that it names: skew() is told the bounds of what the node read.
    ahead = -skew(before - 1, facts.api.clock, after)
    return ahead or 0.0


# the API server, and the Node there


def check_api(api: ApiAnswer | None, facts: HealthFacts) -> Iterator[Finding]:
    if api is None:
        files = facts.files
        if "api" not in facts.blind and files is not None and not files.kubeconfig.problem:
            yield found("api-unknown", f"{files.kubeconfig.path} names no API server that can be asked")
        return
    if api.status == 0:
        yield found("api-unreachable", f"{api.server} does not answer: {api.error}")
    elif api.status not in ANSWERS:
        yield found("api-unhealthy", f"{api.server} answers /livez with {api.status}")
    if api.certificate == "refused":
        other = any(word in api.certificate_error for word in OTHER_AUTHORITY)
        words = f"{api.server} shows a certificate that the node does not trust: {api.certificate_error}"
        yield found("api-other-cluster" if other else "api-certificate", words)


def check_node(facts: HealthFacts) -> Iterator[Finding]:
    node = facts.node
    trusted = facts.api is not None and facts.api.status != 0 and facts.api.certificate != "refused"
    if node is None or not trusted:
        return
    if node.status == 401:
        yield found("node-refused", f"the API server does not take the node's identity: {node.problem}")
    elif node.status == 404:
        yield found("node-missing", f"the cluster has no Node {node.name}", unit=KUBELET_UNIT)
    elif node.problem:
        yield found("node-unknown", node.problem)
    else:
        yield from _check_status(facts, node)


def _check_status(facts: HealthFacts, node: NodeObject) -> Iterator[Finding]:
    readiness = node.readiness
    # Without a kubelet that runs it is a consequence, which the kubelet's own finding explains.
    if readiness is not None and not readiness.ready and kubelet_runs(facts):
        network = any(word in readiness.reason for word in NETWORK_WORDS)
        yield found("node-not-ready", readiness.reason, steps=() if network else None, unit=KUBELET_UNIT)
    for condition in node.conditions:
        if condition.status == "True" and condition.type in PRESSURES:
            yield found("node-pressure", f"{condition.type}: {condition.words}")
        if condition.status == "True" and condition.type == "NetworkUnavailable":
            yield found("node-network", condition.words)
    if node.cordoned and not node.rejoining:
        yield found("node-cordoned", "the Node is cordoned: no new pods come here")


# devices and agents


def check_devices(facts: HealthFacts) -> Iterator[Finding]:
    devices = facts.devices
    if devices is not None:
        if devices.checkpoint_problem:
            yield found("device-checkpoint", devices.checkpoint_problem)
        if devices.dead_sockets:
            yield found("device-sockets", f"nobody serves {', '.join(devices.dead_sockets)} in the plugins' directory")
    if facts.node is not None and facts.node.leftovers:
        names = ", ".join(facts.node.leftovers)
        yield found("resource-leftover", f"no device plugin stands behind {names} any more")


def check_agents(facts: HealthFacts) -> Iterator[Finding]:
    for agent in facts.agents:
        unsuited = bool(agent.made_for) and agent.python != agent.made_for
        if unsuited:
            yield _agent_python(agent)
        unit = agent.service.unit
        if unit is None or unit.masked or (unit.active == "inactive" and not unit.enabled):
            continue  # somebody turned it off
        if unit.active in ("failed", "inactive") or unit.sub == "auto-restart":
            said = f"; last error: {agent.service.last_error}" if agent.service.last_error else ""
            words = f"{unit.name} is {unit.active} ({unit.result or unit.sub}){said}"
            hopeless = unsuited and not agent.kept
            yield found("agent-failed", words, steps=() if hopeless else None, unit=unit.name)
        yield from _agent_says(unit.name, agent.page)


def _agent_says(name: str, page: Page | None) -> Iterator[Finding]:
    """What an agent that is up says of itself."""
    if page is None:
        return
    if page.problem:
        yield found("agent-silent", f"{name}: {page.problem}", unit=name)
    for problem in page.problems:
        yield found("agent-problem", f"{name}: {problem}")
    for fact, words in page.facts.items():
        if fact == "warning":
            yield found("agent-problem", f"{name}: {words}", severity=NOTICE)


def _agent_python(agent: Agent) -> Finding:
    name = agent.service.unit.name if agent.service.unit else "an agent"
    now = f"is Python {agent.python}" if agent.python else "can't be run"
    words = f"{name}: its release is made for Python {agent.made_for}, but {agent.interpreter} {now}"
    if agent.kept:
        return found("agent-python", f"{words}; {agent.kept} runs it yet", severity=NOTICE)
    return found("agent-python", words)
