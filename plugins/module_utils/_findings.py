# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Findings: everything that preflight can say, and what to do about each.

The table is the only place where a finding gets its level and its advice. An error is something that no later role
mends; "mended" names the role that does; the rest are warnings. Which facts lead to which finding is decided in
`_preflight_host` and `_preflight_cluster`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

ERROR, MENDED, WARNING = "error", "mended", "warning"
LEVELS = (ERROR, MENDED, WARNING)


@dataclass(frozen=True, slots=True)
class Finding:
    id: str
    level: str
    what: str  # of this host, with its figures
    todo: str  # the same for every host, so that hosts can be counted


@dataclass(frozen=True, slots=True)
class Check:
    level: str
    todo: str


BY_NODE_PREP = "The role node_prep mends it"

CHECKS: dict[str, Check] = {
    # the way in
    "unreachable": Check(ERROR, "Make it reachable, leave it out with --limit, or set preflight_allow_unreachable."),
    "host-hangs": Check(ERROR, "Log in and see what it waits for (a dead NFS mount, a full disk, sudo that asks)."),
    "not-looked-at": Check(ERROR, "Mend the error that Ansible gave for it; in a play of your own, use no serial."),
    "no-root": Check(ERROR, "Log in as root, or use become (-b, and -K where sudo asks for a password)."),
    "python-missing": Check(ERROR, "Install python3, 3.10 or later; nothing else is needed on a node."),
    "python-old": Check(
        ERROR,
        "Install Python 3.10 or later beside it (RHEL-like 9: dnf install python3.11) and, if the inventory sets "
        "ansible_python_interpreter, point it there.",
    ),
    "python-interpreter": Check(ERROR, "Correct ansible_python_interpreter in the inventory, or drop it."),
    "facts-failed": Check(ERROR, "Read what it says; for more: ansible HOST -vvv -m colocation.kubernetes.node_facts"),
    # the machine
    "system-untested": Check(WARNING, "It may work. Add it to preflight_systems once you know that it does."),
    "architecture": Check(ERROR, "Use x86-64 or arm64 nodes: there are no agents for others."),
    "kernel-old": Check(WARNING, "Use a kernel of 5.8 or later: cgroup v2 is not complete before."),
    "not-systemd": Check(ERROR, "Use a host that systemd starts: the agents and the kubelet are its services."),
    "cgroup-v1": Check(
        ERROR,
        "Boot with cgroup v2: take systemd.unified_cgroup_hierarchy=0 off the kernel's command line, "
        "on older systems add systemd.unified_cgroup_hierarchy=1, and reboot. A kubelet of 1.35 or later refuses "
        "cgroup v1 (failCgroupV1 is true by default); failCgroupV1: false lets it start, but memory can't be protected "
        "or reclaimed there.",
    ),
    "cgroup-controllers": Check(
        ERROR, "Take cgroup_disable off the kernel's command line (Raspberry Pi: add cgroup_enable=memory) and reboot."
    ),
    "clock-skew": Check(
        ERROR,
        "Run a time service (chrony or systemd-timesyncd) on the host and on the controller, and wait until it is in "
        "step; preflight_clock_skew_limit is the limit. Certificates and leases need it.",
    ),
    "clock-unsynchronized": Check(WARNING, "Run chrony or systemd-timesyncd: the clock is right now, but will drift."),
    "disk-space": Check(ERROR, "Make room or enlarge the file system; preflight_disk_free_mib has the limits."),
    "disk-inodes": Check(ERROR, "Remove small files: the file system has room but can't name another file."),
    "disk-read-only": Check(ERROR, "Mount it writable; if the kernel made it read-only, dmesg has the disk's errors."),
    "swap-on": Check(MENDED, f"{BY_NODE_PREP}: swap is turned off, now and after a reboot."),
    "swap-at-boot": Check(MENDED, f"{BY_NODE_PREP}: the swap that would come back at boot is turned off."),
    "swap-kept": Check(
        ERROR, "Set failSwapOn: false in the kubelet's config, or node_prep_swap: disable; else no kubelet starts."
    ),
    # the kubelet
    "kubelet-bundled": Check(ERROR, "Use kubeadm's kubelet: this distribution brings its own and is not supported."),
    "kubelet-snap": Check(
        ERROR, "Install the kubelet from a package (apt, dnf) in place of the snap: a snap can't be given our endpoint."
    ),
    "kubelet-missing": Check(ERROR, "Install the kubelet and join the node with kubeadm."),
    "kubelet-broken": Check(ERROR, "Install the kubelet again: it does not even say its version."),
    "kubelet-no-unit": Check(ERROR, "Install the kubelet's package, which brings kubelet.service."),
    "kubelet-not-systemd": Check(
        ERROR, "Let kubelet.service run the kubelet, and stop whatever else does (a container, a script, a supervisor)."
    ),
    "kubelet-version": Check(ERROR, "Upgrade the cluster: 1.24 is the oldest Kubernetes that works."),
    "kubelet-not-joined": Check(
        ERROR, "Join the node with kubeadm; if it was a member, colocation.kubernetes.rejoin brings it back."
    ),
    "kubelet-identity": Check(
        ERROR,
        "Give the kubelet a kubeconfig that names its API server with https, and a client certificate, a token or a "
        "program: as the node itself we ask with what stands there.",
    ),
    "credentials-source": Check(
        ERROR, "Set credentials_source for this host: minted makes an account for it; docs/security-model.md compares."
    ),
    "kubelet-masked": Check(MENDED, f"{BY_NODE_PREP}: kubelet.service is unmasked, enabled and started."),
    "kubelet-disabled": Check(MENDED, f"{BY_NODE_PREP}: kubelet.service is enabled."),
    "kubelet-stopped": Check(MENDED, f"{BY_NODE_PREP}: kubelet.service is started."),
    "runtime-other": Check(ERROR, "Move the node to containerd: other runtimes are not supported."),
    # containerd
    "containerd-missing": Check(MENDED, f"{BY_NODE_PREP}: containerd is installed."),
    "containerd-no-unit": Check(ERROR, "Install containerd's package, which brings containerd.service."),
    "containerd-old": Check(ERROR, "Upgrade containerd to 1.6 or later."),
    "containerd-config": Check(
        ERROR, "Correct the file, or set node_prep_containerd_repair to have it kept aside and made anew."
    ),
    "containerd-masked": Check(MENDED, f"{BY_NODE_PREP}: containerd.service is unmasked, enabled and started."),
    "containerd-disabled": Check(MENDED, f"{BY_NODE_PREP}: containerd.service is enabled."),
    "containerd-stopped": Check(MENDED, f"{BY_NODE_PREP}: containerd.service is started."),
    "containerd-cri-disabled": Check(MENDED, f"{BY_NODE_PREP}: the CRI plugin is taken out of disabled_plugins."),
    "containerd-cgroup-driver": Check(
        MENDED, f"{BY_NODE_PREP}: containerd is given node_prep_containerd_cgroup_driver."
    ),
    "cgroup-driver": Check(
        ERROR, "Set node_prep_containerd_cgroup_driver to the kubelet's cgroupDriver; with two drivers no pod starts."
    ),
    "gpu-driver": Check(
        ERROR,
        "Log in and run nvidia-smi; dmesg has the driver's words, and a reboot most often helps. "
        "device_plugin_resources without gpu leaves the host's GPUs alone.",
    ),
    # the API server
    "api-unreachable": Check(
        ERROR, "Check route, firewall and load balancer between the host and the API server, and that it runs."
    ),
    "api-unhealthy": Check(ERROR, "Look at the API server's log and at etcd: it answers, but not well."),
    "api-certificate": Check(
        WARNING, "The node may remember another cluster, or the certificate has run out: join it again or renew."
    ),
    # names and groups
    "node-name": Check(WARNING, "Nothing, if it is meant so: the name that the kubelet registers is used."),
    "node-name-invalid": Check(ERROR, "Give the host a name of lower-case letters, digits, - and . (hostnamectl)."),
    "node-name-twice": Check(ERROR, "Give each host a name of its own, or list it only once in the inventory."),
    "machine-id-twice": Check(
        WARNING, "Cloned machines: remove /etc/machine-id and run systemd-machine-id-setup on all but one."
    ),
    "control-plane-is-node": Check(WARNING, "Nothing, if it is meant so: batch work will run beside etcd."),
    "kubelet-versions": Check(WARNING, "Finish the upgrade: kubelets may be up to three minors behind the API server."),
    "group-kube-node": Check(ERROR, "List the hosts that run pods in the inventory's group kube_node."),
    "group-kube-control-plane": Check(
        WARNING, "List the control-plane hosts in the group kube_control_plane: the scheduler needs one of them."
    ),
    "unknown-check": Check(ERROR, "Correct preflight_skip: its names are those in brackets in this report."),
}


def found(check: str, what: str, *, level: str = "", todo: str = "") -> Finding:
    """A finding by the table; level and advice may be other where the facts say so."""
    entry = CHECKS[check]
    return Finding(check, level or entry.level, what, todo or entry.todo)


def demote(findings: Iterable[Finding], skip: Iterable[str]) -> list[Finding]:
    """Errors that the user wants to pass become warnings; nothing is hidden."""
    names = set(skip)
    return [
        replace(finding, level=WARNING) if finding.id in names and finding.level == ERROR else finding
        for finding in findings
    ]


def unknown_names(skip: Iterable[str]) -> list[Finding]:
    findings = []
    for name in skip:
        if name not in CHECKS:
            near = difflib.get_close_matches(name, CHECKS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            findings.append(found("unknown-check", f"preflight_skip has {name}, which is no check{hint}"))
    return findings
