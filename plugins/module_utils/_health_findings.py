# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""All that node_health can find wrong with a node: how bad it is, what to do, and which steps of the repair mend it.

The table is the only place where a finding gets its severity, remedy and steps; which facts lead to which finding is
decided in `_health_judge` and `_health_judge_services`, what follows from the steps in `_health_ladder`.

Critical: pods can't run here, or can't after the next restart of the kubelet. Warning: it works, but not for long, or
not well. Notice: good to know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
SEVERITIES = (CRITICAL, WARNING, NOTICE)
STEPS = CONTAINERD, SWAP, KUBELET, RESTART, REJOIN = ("containerd", "swap", "kubelet", "restart", "rejoin")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong on one node."""

    id: str
    severity: str
    evidence: str  # of this node, with its figures
    remedy: str
    steps: tuple[str, ...]  # of the repair, the first that may mend it first; none: a person has to
    passing: bool  # time alone may mend it: a service that starts, a Node that is not up to date yet
    unit: str  # whose start or restart mends it, in the step restart

    @property
    def mendable(self) -> bool:
        """The repair has a step for it."""
        return bool(self.steps)


@dataclass(frozen=True, slots=True)
class Check:
    severity: str
    remedy: str
    steps: tuple[str, ...] = ()
    passing: bool = False


_LAST = (RESTART, REJOIN)
_ELSE_REJOIN = (KUBELET, REJOIN)
_JOURNAL = "journalctl -u kubelet has the reason."

CHECKS: dict[str, Check] = {
    # the kubelet
    "kubelet-bundled": Check(CRITICAL, "Use kubeadm's kubelet: this distribution brings its own."),
    "kubelet-snap": Check(WARNING, "Install the kubelet from a package (apt, dnf) in place of the snap."),
    "kubelet-missing": Check(CRITICAL, "Install the kubelet and join the node with kubeadm."),
    "kubelet-no-unit": Check(CRITICAL, "Install the kubelet's package, which brings kubelet.service."),
    "kubelet-not-systemd": Check(WARNING, "Let kubelet.service run the kubelet, and stop whatever else does."),
    "kubelet-masked": Check(CRITICAL, "systemctl unmask --now kubelet", (RESTART,)),
    "kubelet-disabled": Check(WARNING, "systemctl enable kubelet", (RESTART,)),
    "kubelet-stopped": Check(CRITICAL, "systemctl start kubelet", _LAST),
    "kubelet-crashing": Check(CRITICAL, _JOURNAL, _LAST, passing=True),
    "kubelet-config": Check(CRITICAL, "Write it anew from the cluster's ConfigMap kubelet-config.", _ELSE_REJOIN),
    "kubelet-kubeconfig": Check(CRITICAL, "Write it anew: the kubelet's certificate is still there.", _ELSE_REJOIN),
    "kubelet-kubeconfig-unread": Check(
        WARNING, "It may be right all the same; but nobody is asked as this kubelet here, nor the node joined anew."
    ),
    "kubelet-certificate-link": Check(CRITICAL, "Link it to the newest certificate that holds.", _ELSE_REJOIN),
    "kubelet-ca-file": Check(CRITICAL, "Write it anew from the kubelet's kubeconfig.", _ELSE_REJOIN),
    "kubelet-identity-lost": Check(CRITICAL, "Join the node again: nothing here proves who it is.", (REJOIN,)),
    "kubelet-certificate-ended": Check(CRITICAL, "Join the node again, after a look at its clock.", (REJOIN,)),
    "kubelet-certificate-ending": Check(
        WARNING, "The kubelet should have renewed it by now: journalctl -u kubelet | grep -i certificate; is "
        "rotateCertificates true in its config, and does the controller manager sign?",
    ),
    "ca-ended": Check(CRITICAL, "Renew the cluster's authority, then join the nodes again."),
    "ca-ending": Check(WARNING, "Plan the renewal of the cluster's authority: all nodes have to be joined again."),
    "rejoin-unfinished": Check(CRITICAL, "Run colocation.kubernetes.rejoin again: it goes on from there.", (REJOIN,)),
    # containerd
    "runtime-other": Check(CRITICAL, "Move the node to containerd: other runtimes are not supported."),
    "containerd-missing": Check(CRITICAL, "Install containerd.", (CONTAINERD,)),
    "containerd-no-unit": Check(CRITICAL, "Install containerd's package, which brings containerd.service."),
    "containerd-masked": Check(CRITICAL, "systemctl unmask --now containerd", (CONTAINERD,)),
    "containerd-disabled": Check(WARNING, "systemctl enable containerd", (CONTAINERD,)),
    "containerd-stopped": Check(CRITICAL, "systemctl start containerd", (CONTAINERD,)),
    "containerd-config": Check(CRITICAL, "Correct the file.", (CONTAINERD,)),
    "containerd-cri-disabled": Check(CRITICAL, "Take the CRI plugin out of disabled_plugins.", (CONTAINERD,)),
    "containerd-cgroup-driver": Check(CRITICAL, "Give containerd the kubelet's cgroup driver.", (CONTAINERD,)),
    "containerd-silent": Check(CRITICAL, "systemctl restart containerd (pods keep running)", (CONTAINERD,)),
    "containerd-not-ready": Check(CRITICAL, "journalctl -u containerd has the reason.", (CONTAINERD,)),
    "endpoint-silent": Check(CRITICAL, "Restart what serves the kubelet's endpoint, then the kubelet.", (RESTART,)),
    "cni-missing": Check(
        CRITICAL, "See to the network add-on: its DaemonSet writes the configuration on each node.", passing=True
    ),
    "cni-record": Check(
        WARNING, "Remove these files, which a power loss or a full disk cut: then the pods' networks end without.",
        (CONTAINERD,),
    ),
    # the machine
    "swap-on": Check(CRITICAL, "swapoff -a, and take it out of what turns it on at boot.", (SWAP,)),
    "swap-at-boot": Check(WARNING, "Take it out of what turns it on at boot.", (SWAP,)),
    "cgroup-v1": Check(CRITICAL, "Boot with cgroup v2; kubelets of 1.35 and later refuse v1."),
    "cgroup-controllers": Check(CRITICAL, "Take cgroup_disable off the kernel's command line and reboot."),
    "disk-read-only": Check(CRITICAL, "Mount it writable; if the kernel made it read-only, dmesg has the errors."),
    "disk-full": Check(CRITICAL, "Make room or enlarge the file system."),
    "disk-low": Check(WARNING, "Make room or enlarge the file system; the kubelet evicts pods at 10 %."),
    "disk-inodes": Check(WARNING, "Remove small files: the file system can't name many more."),
    "pids-low": Check(WARNING, "Find what starts so many processes, or raise kernel.pid_max."),
    "clock-skew": Check(CRITICAL, "Run a time service (chrony or systemd-timesyncd) and wait until it is in step."),
    "clock-unsynchronized": Check(WARNING, "Run chrony or systemd-timesyncd: the clock will drift."),
    # the API server, and the Node there
    "api-unknown": Check(CRITICAL, "No kubeconfig on the node names an API server."),
    "api-unreachable": Check(CRITICAL, "Check route, firewall and load balancer, and that the API server runs."),
    "api-unhealthy": Check(WARNING, "Look at the API server's log and at etcd."),
    "api-certificate": Check(CRITICAL, "Renew the API server's certificate, or correct the address in kubelet.conf."),
    "api-other-cluster": Check(
        CRITICAL, "Join the node again: it remembers another authority than this API server's.", (REJOIN,)
    ),
    "node-refused": Check(CRITICAL, "Join the node again: the API server does not take its certificate.", (REJOIN,)),
    "node-unknown": Check(WARNING, "Read what the API server says."),
    "node-missing": Check(CRITICAL, "systemctl restart kubelet: it registers only when it starts.", _LAST, True),
    "node-not-ready": Check(CRITICAL, _JOURNAL, _LAST, passing=True),
    "node-pressure": Check(WARNING, "Free what the node is short of: the kubelet evicts pods and takes no more."),
    "node-network": Check(WARNING, "See to the network add-on or the cloud's route controller."),
    "node-cordoned": Check(NOTICE, "kubectl uncordon, if nobody works on it."),
    # devices and agents
    "device-checkpoint": Check(
        WARNING, "The kubelet starts with no devices handed out: drain the node before its kubelet restarts."
    ),
    "device-sockets": Check(NOTICE, "Remove them, or leave them: the kubelet does at its next start."),
    "resource-leftover": Check(NOTICE, "Remove it: colocation.kubernetes.node_capacity with state: absent."),
    "agent-failed": Check(WARNING, "The journal of the unit has the reason.", (RESTART,)),
    "agent-silent": Check(WARNING, "systemctl restart it; its journal tells what it does.", (RESTART,), True),
    "agent-problem": Check(WARNING, "Its page and its journal tell more.", passing=True),
    "agent-python": Check(WARNING, "Run colocation.kubernetes.site, which brings a release for this Python."),
    # the look itself
    "not-looked-at": Check(CRITICAL, "Log in and see what hangs there: nothing is known of it yet.", passing=True),
}  # fmt: skip


def found(
    check: str,
    evidence: str,
    *,
    severity: str = "",
    remedy: str = "",
    steps: tuple[str, ...] | None = None,
    unit: str = "",
) -> Finding:
    """A finding by the table; what is given here beats it."""
    entry = CHECKS[check]
    return Finding(
        id=check,
        severity=severity or entry.severity,
        evidence=" ".join(evidence.split()),
        remedy=remedy or entry.remedy,
        steps=entry.steps if steps is None else steps,
        passing=entry.passing,
        unit=unit,
    )


def without_kubeadm(finding: Finding, why: str) -> Finding:
    """The finding on a node that kubeadm did not join (`why`): neither joining again nor its files mend it there."""
    in_vain = {REJOIN} if finding.id == "kubelet-certificate-link" else {KUBELET, REJOIN}
    steps = tuple(step for step in finding.steps if step not in in_vain)
    if steps or not finding.steps:
        return replace(finding, steps=steps)
    return replace(finding, steps=steps, remedy=f"Have it made anew by what made the node, not kubeadm: {why}.")
