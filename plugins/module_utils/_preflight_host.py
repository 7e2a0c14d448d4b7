# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One host judged: its probe, its facts and what is expected of it, to findings.

Knows no file, clock or connection; all of them were read before. Cross-host questions are in `_preflight_cluster`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import (
    ERROR,
    WARNING,
    Finding,
    demote,
    found,
    unknown_names,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import Cgroup
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import Clock, skew
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import last_line
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import Disk
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import (
    NodeFacts,
    WorkerFacts,
    from_json,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import Machine
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_probe import (
    Probe,
    choose_python,
    parse_probe,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_cluster import HostResult
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_services import (
    check_api,
    check_cgroup_driver,
    check_containerd,
    check_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapFacts

LEAST_KERNEL = (5, 8)
LEAST_INODES = 10_000
MOST_WORDS = 300  # characters of what a program says
NO_WAY_IN = ("unreachable", "host-hangs", "no-root", "python-missing", "python-old", "python-interpreter")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
ARCHITECTURES = ("x86_64", "aarch64")
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the inventory and the role's variables want of one host."""

    host: str
    is_worker: bool
    is_control_plane: bool
    systems: dict[str, tuple[str, ...]]
    clock_skew_limit: float
    disk_free_mib: dict[str, int]
    swap: str  # "disable" or "keep"
    install_containerd: bool
    repair_containerd: bool
    cgroup_driver: str  # that node_prep gives containerd
    agents_as_kubelet: bool  # they are to have the kubelet's own identity
    allow_unreachable: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The controller's clock just before and just after it asked the node."""

    before: float
    after: float


def judge(
    probe_result: Mapping[str, Any],
    facts_result: Mapping[str, Any],
    want: Expectations,
    skip: Sequence[str],
    gpus_result: Mapping[str, Any] | None = None,
) -> HostResult:
    """From what Ansible registered to findings; without a way in, the facts were never asked for."""
    probe = parse_probe(probe_result)
    findings = [*unknown_names(skip), *check_probe(probe, want)]
    if any(finding.id in NO_WAY_IN for finding in findings):
        return _result(want, None, demote(findings, skip))
    if "node" not in facts_result:
        findings.append(_no_facts(facts_result, want))
        return _result(want, None, demote(findings, skip))
    facts = from_json(NodeFacts, facts_result["node"])
    asked = None
    if "asked_at" in facts_result and "answered_at" in facts_result:
        asked = Asked(float(facts_result["asked_at"]), float(facts_result["answered_at"]))
    findings += check_host(facts, asked, want)
    findings += check_gpu_driver(gpus_result or {}, want)
    return _result(want, facts, demote(findings, skip))


def _no_facts(result: Mapping[str, Any], want: Expectations) -> Finding:
    words = _words(result)
    if result.get("unreachable"):
        return _went_away(words, want)
    if _timed_out(result):
        return found("host-hangs", f"the module node_facts got no answer: {words}")
    last_words = last_line(str(result.get("module_stderr", "")))
    return found("facts-failed", f"{words}: {last_words}" if last_words else words)


def _words(result: Mapping[str, Any]) -> str:
    return " ".join(str(result.get("msg", "no words were given")).split())


def _went_away(words: str, want: Expectations) -> Finding:
    return found("unreachable", f"it answered once, then no more: {words}", level=_unreachable_level(want))


def _timed_out(result: Mapping[str, Any]) -> bool:
    return bool(result.get("timedout")) or "timed out" in str(result.get("msg", "")).lower()


def check_gpu_driver(result: Mapping[str, Any], want: Expectations) -> Iterator[Finding]:
    """What Ansible registered of nvidia-smi; a host that was not asked, or has no driver, did not fail."""
    words = _words(result)
    if result.get("unreachable"):
        yield _went_away(words, want)
    elif result.get("failed") and _timed_out(result):
        yield found("gpu-driver", f"nvidia-smi got no answer: {words}")
    elif result.get("failed"):
        said = " ".join(str(result.get("stdout") or result.get("stderr") or words).split())
        yield found("gpu-driver", f"nvidia-smi failed: {said[:MOST_WORDS]}")


def _unreachable_level(want: Expectations) -> str:
    return WARNING if want.allow_unreachable else ERROR


def _result(want: Expectations, facts: NodeFacts | None, findings: Sequence[Finding]) -> HostResult:
    worker = facts.worker if facts else None
    return HostResult(
        host=want.host,
        node_name=node_name(facts.machine, worker) if facts and worker else "",
        machine_id=facts.machine.machine_id if facts else "",
        kubelet_version=worker.kubelet.version if worker else "",
        findings=tuple(findings),
    )


def check_probe(probe: Probe, want: Expectations) -> Iterator[Finding]:
    """The way in; with a finding of these there are no facts to judge."""
    if probe.trouble == "unreachable":
        yield found("unreachable", probe.words, level=_unreachable_level(want))
    elif probe.trouble == "hangs":
        yield found("host-hangs", f"a shell command got no answer: {probe.words}")
    elif probe.trouble or probe.uid != 0:
        yield found("no-root", f"we are not root: {probe.words}" if probe.words else f"we run as user {probe.uid}")
    elif choose_python(probe) is None:
        yield _python_trouble(probe)


def _python_trouble(probe: Probe) -> Finding:
    there = ", ".join(map(str, probe.pythons))
    if probe.named:
        return found(
            "python-interpreter",
            f"ansible_python_interpreter is {probe.named}, not there or older than 3.10; found: {there or 'none'}",
        )
    if there:
        return found("python-old", f"no Python of 3.10 or later; found: {there}")
    return found("python-missing", "no python3 is there")


def check_host(facts: NodeFacts, asked: Asked | None, want: Expectations) -> Iterator[Finding]:
    yield from check_machine(facts.machine, want)
    yield from check_clock(facts.clock, asked, want)
    if facts.worker:
        yield from check_worker(facts.worker, facts.machine, want)


def check_worker(worker: WorkerFacts, machine: Machine, want: Expectations) -> Iterator[Finding]:
    yield from check_cgroup(worker.cgroup, worker.kubelet.fail_cgroup_v1)
    for disk in worker.disks:
        yield from check_disk(disk, want.disk_free_mib.get(disk.path, 0))
    yield from check_swap(worker.swap, worker.kubelet.fail_swap_on, want.swap)
    yield from check_kubelet(worker.kubelet, want.agents_as_kubelet)
    yield from check_containerd(worker.containerd, worker.kubelet, want.install_containerd, want.repair_containerd)
    yield from check_cgroup_driver(worker.containerd, worker.kubelet, want.cgroup_driver)
    yield from check_api(worker)
    yield from check_name(node_name(machine, worker), want)


def check_machine(machine: Machine, want: Expectations) -> Iterator[Finding]:
    system = machine.system
    known = want.systems.get(system.id, ())
    if not any(system.version_id == version or system.version_id.startswith(f"{version}.") for version in known):
        yield found("system-untested", f"{system.name or system.id or 'an unknown system'} is not in preflight_systems")
    if machine.architecture not in ARCHITECTURES:
        yield found("architecture", f"the machine is {machine.architecture}")
    kernel = re.match(r"(\d+)\.(\d+)", machine.kernel)
    if kernel and (int(kernel[1]), int(kernel[2])) < LEAST_KERNEL:
        yield found("kernel-old", f"the kernel is {machine.kernel}")
    if want.is_worker and machine.first_process != "systemd":
        yield found("not-systemd", f"the first process is {machine.first_process or 'unknown'}, not systemd")


def check_clock(clock: Clock, asked: Asked | None, want: Expectations) -> Iterator[Finding]:
    off = skew(asked.before, clock.now, asked.after) if asked else 0.0
    if abs(off) > want.clock_skew_limit:
        side = "ahead of" if off > 0 else "behind"
        yield found("clock-skew", f"the clock is {abs(off):.1f} s {side} the controller's")
    elif clock.synchronized is not True:
        said = f"{clock.told_by} says that no" if clock.told_by else "no sign that a"
        yield found("clock-unsynchronized", f"{said} time service keeps the clock in step")


def check_cgroup(cgroup: Cgroup, fail_cgroup_v1: bool | None) -> Iterator[Finding]:
    if cgroup.mode == "v2":
        missing = [name for name in CONTROLLERS if name not in cgroup.controllers]
        if missing:
            yield found("cgroup-controllers", f"cgroup v2 lacks the controllers {', '.join(missing)}")
        return
    layout = {
        "hybrid": "cgroup v1 with a v2 tree beside it (hybrid), which the kubelet takes for v1",
        "v1": "cgroup v1",
    }.get(cgroup.mode, "no cgroups at /sys/fs/cgroup")
    held = " (failCgroupV1: false is set)" if fail_cgroup_v1 is False else ""
    yield found("cgroup-v1", f"the host runs {layout}{held}")


def check_disk(disk: Disk, limit_mib: int) -> Iterator[Finding]:
    place = disk.path if disk.measured_at == disk.path else f"{disk.path} (measured at {disk.measured_at})"
    if disk.read_only:
        yield found("disk-read-only", f"{place} is on a read-only file system")
    elif disk.free_mib < limit_mib:
        yield found("disk-space", f"{place} has {disk.free_mib} MiB free of {disk.size_mib}, {limit_mib} are needed")
    elif disk.inodes_free is not None and disk.inodes_free < LEAST_INODES:
        yield found("disk-inodes", f"{place} has {disk.inodes_free} inodes free, {LEAST_INODES} are needed")


def check_swap(swap: SwapFacts, fail_swap_on: bool, policy: str) -> Iterator[Finding]:
    active = ", ".join(device.name for device in swap.active)
    sources = ", ".join(dict.fromkeys(f"{source.where} ({source.kind})" for source in swap.sources))
    if policy == "keep":
        if active and fail_swap_on:
            yield found("swap-kept", f"swap is on ({active}) and to be kept, but the kubelet's failSwapOn is true")
        return
    if active:
        yield found("swap-on", f"swap is on: {active}")
    if sources:
        yield found("swap-at-boot", f"swap comes on at boot: {sources}")


def node_name(machine: Machine, worker: WorkerFacts) -> str:
    """As the kubelet makes it."""
    return (worker.kubelet.hostname_override or machine.hostname).strip().lower()


def check_name(name: str, want: Expectations) -> Iterator[Finding]:
    if not NODE_NAME.fullmatch(name) or len(name) > 253:
        yield found("node-name-invalid", f"the node would be called {name!r}, which Kubernetes does not allow")
    elif name != want.host:
        yield found("node-name", f"the kubelet calls this host {name}")
    if want.is_control_plane:
        yield found("control-plane-is-node", "the host is in kube_control_plane and in kube_node")
