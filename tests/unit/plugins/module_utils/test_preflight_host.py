# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node judged from its files: a healthy one gives no finding, and each fault gives its own finding and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import ERROR, MENDED, WARNING
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import Clock
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import NodeFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import Kubelet
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_host import (
    Asked,
    Expectations,
    check_host,
    judge,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import (
    CA,
    DUMP_COMMAND,
    SERVER,
    PreflightNode,
)

ASKED = Asked(1000.0, 1002.0)
PROBE = {"stdout": "preflight:uid 0\npreflight:named \npreflight:python /usr/bin/python3 3.13.5\npreflight:end\n"}


@pytest.fixture
def node(tmp_path: Path) -> PreflightNode:
    return PreflightNode(tmp_path)


def expected(facts: NodeFacts, **other: Any) -> Expectations:
    want = Expectations(
        host=facts.machine.hostname.lower(),
        is_worker=True,
        is_control_plane=False,
        systems={"debian": ("12", "13")},
        clock_skew_limit=5.0,
        disk_free_mib={"/var": 1},
        swap="disable",
        install_containerd=True,
        repair_containerd=False,
        cgroup_driver="systemd",
        agents_as_kubelet=True,
        allow_unreachable=False,
    )
    return replace(want, **other)


def levels(facts: NodeFacts, asked: Asked | None = ASKED, **other: Any) -> dict[str, str]:
    """IDs with levels; what depends on the machine that runs the tests is made equal first."""
    machine = replace(facts.machine, architecture="x86_64", kernel="6.12.1")
    clock = replace(facts.clock, now=1001.0)
    facts = replace(facts, machine=machine, clock=clock)
    return {finding.id: finding.level for finding in check_host(facts, asked, expected(facts, **other))}


def test_a_healthy_node_has_no_finding(node: PreflightNode) -> None:
    assert levels(node.facts()) == {}
    assert node.asked_with == [(SERVER, CA)]


def unit(name: str, **properties: str) -> Callable[[PreflightNode], None]:
    return lambda node: node.units[name].update(properties)


def write(name: str, text: str) -> Callable[[PreflightNode], None]:
    return lambda node: node.write(name, text) and None


def answer(command: str, rc: int, out: str, err: str = "") -> Callable[[PreflightNode], None]:
    return lambda node: node.answers.update({command: (rc, out, err)})


def api(status: int, error: str = "", server: str = SERVER) -> Callable[[PreflightNode], None]:
    return lambda node: setattr(node, "api", ApiAnswer(server, status, error, "unchecked", ""))


def remove(name: str) -> Callable[[PreflightNode], None]:
    return lambda node: (node.root / name).unlink()


def snap(node: PreflightNode) -> None:
    node.kubelet_process("/snap/kubelet/2/kubelet", "0::/system.slice/snap.kubelet.daemon.service\n")


def managed(node: PreflightNode) -> None:
    """As on nodes of a cloud: another place, and a program in place of a certificate."""
    unit = "0::/system.slice/kubelet.service\n"
    node.kubelet_process("/usr/bin/kubelet", unit, "--kubeconfig=/var/lib/kubelet/kubeconfig")
    node.kubeconfig("exec:\n      command: aws-iam-authenticator\n      args: [token]", "var/lib/kubelet/kubeconfig")


def proof(user: str) -> Callable[[PreflightNode], None]:
    return lambda node: node.kubeconfig(user)


def container(node: PreflightNode) -> None:
    node.kubelet_process(
        "/usr/bin/kubelet", "0::/system.slice/docker-12ab.scope\n", "--config=/var/lib/kubelet/config.yaml"
    )


def crio_by_flag(node: PreflightNode) -> None:
    node.no_kubelet_process()
    node.write(
        "var/lib/kubelet/kubeadm-flags.env",
        'KUBELET_KUBEADM_ARGS="--v=2 --container-runtime-endpoint=unix:///var/run/crio/crio.sock"\n',
    )


def k3s(node: PreflightNode) -> None:
    node.write("etc/systemd/system/k3s-agent.service", "[Service]\n")
    node.units["k3s-agent.service"] = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled"}


def broken_containerd(node: PreflightNode) -> None:
    answer(
        DUMP_COMMAND,
        1,
        "",
        "containerd: failed to load TOML: /etc/containerd/config.toml: (27, 47): was expecting token [[\n",
    )(node)


MOUNTS_V1 = (
    "25 24 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n30 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
MOUNTS_HYBRID = MOUNTS_V1 + "26 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
RUNC = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = false\n"
KATA = RUNC.replace("runc", "kata")

FAULTS: list[tuple[Callable[[PreflightNode], Any], dict[str, str]]] = [
    (write("etc/os-release", "ID=debian\nVERSION_ID=11\n"), {"system-untested": WARNING}),
    (write("etc/os-release", "ID=debian\nVERSION_ID=13.2\n"), {}),
    (write("etc/os-release", "ID=debian\nVERSION_ID=131\n"), {"system-untested": WARNING}),
    (write("proc/1/comm", "runit\n"), {"not-systemd": ERROR}),
    (write("proc/self/mountinfo", MOUNTS_V1), {"cgroup-v1": ERROR}),
    (write("proc/self/mountinfo", MOUNTS_HYBRID), {"cgroup-v1": ERROR}),
    (write("proc/self/mountinfo", ""), {"cgroup-v1": ERROR}),
    (write("sys/fs/cgroup/cgroup.controllers", "cpu io pids cpuset\n"), {"cgroup-controllers": ERROR}),
    (answer("timedatectl show", 0, "NTPSynchronized=no\n"), {"clock-unsynchronized": WARNING}),
    (
        write("proc/swaps", "Filename Type Size Used Priority\n/swapfile file 524284 0 -2\n"),
        {"swap-on": MENDED},
    ),
    (write("etc/fstab", "/swapfile none swap sw 0 0\n"), {"swap-at-boot": MENDED}),
    (unit("kubelet.service", UnitFileState="disabled"), {"kubelet-disabled": MENDED}),
    (unit("kubelet.service", ActiveState="activating", SubState="auto-restart"), {"kubelet-stopped": MENDED}),
    (
        unit("kubelet.service", ActiveState="inactive", UnitFileState="disabled"),
        {"kubelet-disabled": MENDED, "kubelet-stopped": MENDED},
    ),
    (
        unit("kubelet.service", LoadState="masked", ActiveState="inactive", UnitFileState="masked"),
        {"kubelet-masked": MENDED},
    ),
    (remove("usr/lib/systemd/system/kubelet.service"), {"kubelet-no-unit": ERROR}),
    (remove("etc/kubernetes/kubelet.conf"), {"kubelet-not-joined": ERROR}),
    (write("etc/kubernetes/kubelet.conf", "apiVersion: v1\n"), {"kubelet-not-joined": ERROR}),
    (write("etc/kubernetes/kubelet.conf", f"server: {SERVER}\n"), {"kubelet-identity": ERROR}),
    (proof("username: somebody"), {"kubelet-identity": ERROR}),
    (proof("client-certificate-data: eA==\n    client-key-data: eA=="), {}),
    (proof("token: abc"), {}),
    (proof("tokenFile: /var/lib/kubelet/token"), {}),
    (proof("client-certificate: /a.pem"), {"credentials-source": ERROR}),
    (managed, {"credentials-source": ERROR}),
    (answer("/usr/bin/kubelet --version", 0, "Kubernetes v1.23.17\n"), {"kubelet-version": ERROR}),
    (answer("/usr/bin/kubelet --version", 0, "Kubernetes v1.24.0\n"), {}),
    (answer("/usr/bin/kubelet --version", 126, "", "cannot execute binary file"), {"kubelet-broken": ERROR}),
    (snap, {"kubelet-snap": ERROR}),
    (container, {"kubelet-not-systemd": ERROR}),
    (k3s, {"kubelet-bundled": ERROR}),
    (crio_by_flag, {"runtime-other": ERROR}),
    (
        write(
            "var/lib/kubelet/config.yaml",
            'cgroupDriver: systemd\ncontainerRuntimeEndpoint: "unix:///var/run/cri-dockerd.sock" # old\n',
        ),
        {"runtime-other": ERROR},
    ),
    (
        write(
            "var/lib/kubelet/config.yaml",
            "cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix:///var/run/cri-resmgr/cri-resmgr.sock\n",
        ),
        {},
    ),
    (remove("usr/bin/containerd"), {"containerd-missing": MENDED}),
    (
        answer("/usr/bin/containerd --version", 0, "containerd containerd.io 1.5.11 3df54a8\n"),
        {"containerd-old": ERROR},
    ),
    (remove("usr/lib/systemd/system/containerd.service"), {"containerd-no-unit": ERROR}),
    (
        unit("containerd.service", LoadState="masked", ActiveState="inactive", UnitFileState="masked"),
        {"containerd-masked": MENDED},
    ),
    (unit("containerd.service", ActiveState="failed"), {"containerd-stopped": MENDED}),
    (unit("containerd.service", UnitFileState="disabled"), {"containerd-disabled": MENDED}),
    (broken_containerd, {"containerd-config": ERROR}),
    (answer(DUMP_COMMAND, 0, RUNC), {"containerd-cgroup-driver": MENDED}),
    (answer(DUMP_COMMAND, 0, KATA), {}),
    (
        answer(DUMP_COMMAND, 0, 'disabled_plugins = [\n  "cri",\n]\nversion = 2\n'),
        {"containerd-cri-disabled": MENDED},
    ),
    (api(0, "Connection refused"), {"api-unreachable": ERROR}),
    (api(500), {"api-unhealthy": ERROR}),
    (api(403), {}),
    (api(200), {}),
]


@pytest.mark.parametrize(("damage", "findings"), FAULTS)
def test_each_fault_is_named(
    node: PreflightNode, damage: Callable[[PreflightNode], Any], findings: dict[str, str]
) -> None:
    damage(node)
    assert levels(node.facts()) == findings


def test_agents_with_another_identity_than_the_kubelets_need_nothing_of_it(node: PreflightNode) -> None:
    managed(node)
    assert levels(node.facts(), agents_as_kubelet=False) == {}


def test_what_agents_can_not_use_is_said_with_what_they_can(node: PreflightNode) -> None:
    managed(node)
    facts = node.facts()
    (finding,) = [one for one in check_host(facts, None, expected(facts)) if one.id == "credentials-source"]
    assert "from the program aws-iam-authenticator, which the agents don't run" in finding.what
    assert "minted" in finding.todo


def test_a_node_without_a_kubelet_is_told_once(node: PreflightNode) -> None:
    node.no_kubelet_process()
    (node.root / "usr/bin/kubelet").unlink()
    (node.root / "etc/kubernetes/kubelet.conf").unlink()
    assert levels(node.facts()) == {"kubelet-missing": ERROR}


def test_a_config_that_node_prep_may_repair_is_mended(node: PreflightNode) -> None:
    broken_containerd(node)
    assert levels(node.facts(), repair_containerd=True) == {"containerd-config": MENDED}


def test_containerd_that_node_prep_may_not_install_is_an_error(node: PreflightNode) -> None:
    (node.root / "usr/bin/containerd").unlink()
    assert levels(node.facts(), install_containerd=False) == {"containerd-missing": ERROR}


def test_a_load_balancer_on_the_node_comes_back_with_its_kubelet(node: PreflightNode) -> None:
    api(0, "Connection refused", "https://127.0.0.1:6443")(node)
    assert levels(node.facts()) == {"api-unreachable": ERROR}
    unit("containerd.service", ActiveState="inactive")(node)
    assert levels(node.facts()) == {"api-unreachable": MENDED, "containerd-stopped": MENDED}


def test_a_refused_certificate_is_a_warning(node: PreflightNode) -> None:
    node.api = ApiAnswer(SERVER, 401, "", "refused", "self-signed certificate in certificate chain")
    assert levels(node.facts()) == {"api-certificate": WARNING}


@pytest.mark.parametrize(("setting", "findings"), [("", {"swap-kept": ERROR}), ("failSwapOn: false\n", {})])
def test_swap_may_be_kept_only_where_the_kubelet_starts(
    node: PreflightNode, setting: str, findings: dict[str, str]
) -> None:
    node.write("proc/swaps", "Filename Type Size Used Priority\n/swapfile file 524284 0 -2\n")
    node.write("var/lib/kubelet/config.yaml", f"cgroupDriver: systemd\n{setting}")
    assert levels(node.facts(), swap="keep") == findings


def drop_ins(node: PreflightNode, **files: str) -> None:
    node.kubelet_process(
        "/usr/bin/kubelet",
        "0::/system.slice/kubelet.service\n",
        "--config=/var/lib/kubelet/config.yaml",
        "--config-dir=/etc/kubelet.d",
    )
    for name, text in files.items():
        node.write(f"etc/kubelet.d/{name.replace('__', '/')}.conf", text)


def kubelet(node: PreflightNode) -> Kubelet:
    worker = node.facts().worker
    assert worker is not None
    return worker.kubelet


def test_drop_ins_of_the_kubelet_beat_its_config(node: PreflightNode) -> None:
    drop_ins(node, a="failSwapOn: false\ncgroupDriver: systemd\n", b="cgroupDriver: cgroupfs\n")
    node.write("etc/kubelet.d/c.yaml", "cgroupDriver: systemd\n")  # by its name no drop-in
    assert (kubelet(node).fail_swap_on, kubelet(node).cgroup_driver) == (False, "cgroupfs")
    assert kubelet(node).runtime_endpoint == "unix:///run/containerd/containerd.sock"
    assert levels(node.facts()) == {"cgroup-driver": ERROR}


def test_drop_ins_are_read_in_the_order_of_the_kubelet(node: PreflightNode) -> None:
    """A directory counts by its name among the files, as in Go's WalkDir."""
    drop_ins(node, b__z="cgroupDriver: cgroupfs\n", a="cgroupDriver: other\n", c="failCgroupV1: true\n")
    assert kubelet(node).cgroup_driver == "cgroupfs"
    drop_ins(node, c="cgroupDriver: last\n")
    assert kubelet(node).cgroup_driver == "last"


def test_null_in_a_drop_in_takes_the_setting_away(node: PreflightNode) -> None:
    drop_ins(node, a="failSwapOn: false\ncgroupDriver: null\n", b='{"failSwapOn": null}')
    assert (kubelet(node).fail_swap_on, kubelet(node).cgroup_driver) == (True, "")


def test_a_drop_in_directory_that_is_not_there_is_empty(node: PreflightNode) -> None:
    drop_ins(node)
    assert kubelet(node).cgroup_driver == "systemd"


def test_a_flag_beats_a_drop_in(node: PreflightNode) -> None:
    drop_ins(node, a="failSwapOn: true\n")
    arguments = ("--config-dir=/etc/kubelet.d", "--fail-swap-on=false")
    node.kubelet_process("/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", *arguments)
    assert kubelet(node).fail_swap_on is False


def test_containerd_is_asked_about_the_config_that_node_prep_manages(node: PreflightNode) -> None:
    node.containerd_config = "/etc/other.toml"
    answer("/usr/bin/containerd --config /etc/other.toml config dump", 0, RUNC)(node)
    assert levels(node.facts()) == {"containerd-cgroup-driver": MENDED}


def test_containerd_without_a_config_has_its_defaults(node: PreflightNode) -> None:
    """`containerd config dump` of 1.x fails there, and the daemon starts."""
    answer(DUMP_COMMAND, 1, "", "containerd: open /etc/containerd/config.toml: no such file or directory\n")(node)
    answer("/usr/bin/containerd config default", 0, RUNC)(node)
    assert levels(node.facts()) == {"containerd-cgroup-driver": MENDED}
    node.write("etc/containerd/config.toml", "=\n")
    assert levels(node.facts()) == {"containerd-config": ERROR}


@pytest.mark.parametrize(
    ("wanted", "containerd", "version", "findings"),
    [
        ("systemd", True, "1.7.24", {}),
        ("systemd", False, "1.7.24", {"containerd-cgroup-driver": MENDED}),
        ("cgroupfs", False, "1.7.24", {"cgroup-driver": ERROR}),
        ("cgroupfs", True, "1.7.24", {"containerd-cgroup-driver": MENDED, "cgroup-driver": ERROR}),
        ("cgroupfs", False, "v2.1.4", {"cgroup-driver": WARNING}),
    ],
)
def test_the_cgroup_driver_of_node_prep_must_be_the_kubelets(
    node: PreflightNode, wanted: str, containerd: bool, version: str, findings: dict[str, str]
) -> None:
    answer(DUMP_COMMAND, 0, RUNC.replace("false", str(containerd).lower()))(node)
    answer("/usr/bin/containerd --version", 0, f"containerd c/c {version} abc\n")(node)
    assert levels(node.facts(), cgroup_driver=wanted) == findings


def test_an_older_kubelet_does_not_ask_containerd_for_the_driver(node: PreflightNode) -> None:
    answer("/usr/bin/containerd --version", 0, "containerd c/c v2.1.4 abc\n")(node)
    answer("/usr/bin/kubelet --version", 0, "Kubernetes v1.30.9\n")(node)
    assert levels(node.facts(), cgroup_driver="cgroupfs")["cgroup-driver"] == ERROR


@pytest.mark.parametrize(
    ("wanted", "kubelet", "containerd", "findings"),
    [
        ("systemd", "1.36.3", "1.7.24", {"cgroup-driver": ERROR}),
        ("systemd", "1.30.9", "v2.1.4", {"cgroup-driver": ERROR}),
        ("systemd", "1.36.3", "v2.1.4", {}),
        ("cgroupfs", "1.36.3", "1.7.24", {"containerd-cgroup-driver": MENDED}),
    ],
)
def test_a_kubelet_that_is_told_no_driver_has_cgroupfs(
    node: PreflightNode, wanted: str, kubelet: str, containerd: str, findings: dict[str, str]
) -> None:
    node.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
    answer("/usr/bin/containerd --version", 0, f"containerd c/c {containerd} abc\n")(node)
    answer("/usr/bin/kubelet --version", 0, f"Kubernetes v{kubelet}\n")(node)
    assert levels(node.facts(), cgroup_driver=wanted) == findings


def test_the_driver_of_a_kubelet_without_its_configuration_is_not_known(node: PreflightNode) -> None:
    (node.root / "var/lib/kubelet/config.yaml").unlink()
    assert levels(node.facts()) == {}


def test_disks_are_judged_by_their_own_limits(node: PreflightNode) -> None:
    (node.root / "var/lib").mkdir(parents=True, exist_ok=True)
    facts = node.facts(disks=("/var", "/var/lib/containerd/x"))
    disk = facts.worker.disks[1] if facts.worker else None
    assert disk is not None
    assert disk.measured_at == "/var/lib"
    assert levels(facts, disk_free_mib={"/var": 1, "/var/lib/containerd/x": disk.free_mib + 1}) == {"disk-space": ERROR}
    assert levels(facts, disk_free_mib={"/var": 1, "/var/lib/containerd/x": disk.free_mib}) == {}


@pytest.mark.parametrize(
    ("other", "findings"),
    [
        ({"read_only": True}, {"disk-read-only": ERROR}),
        ({"inodes_free": 9}, {"disk-inodes": ERROR}),
        ({"inodes_free": None}, {}),
    ],
)
def test_a_disk_that_cannot_be_written_is_an_error(
    node: PreflightNode, other: dict[str, Any], findings: dict[str, str]
) -> None:
    facts = node.facts()
    assert facts.worker is not None
    worker = replace(facts.worker, disks=tuple(replace(disk, **other) for disk in facts.worker.disks))
    assert levels(replace(facts, worker=worker)) == findings


@pytest.mark.parametrize(
    ("host", "override", "findings"),
    [
        ("w1", "w1", {}),
        ("w1", "W1", {}),
        ("w1", "w1.example.org", {"node-name": WARNING}),
        ("w_1", "w_1", {"node-name-invalid": ERROR}),
        ("w1", "-w1", {"node-name-invalid": ERROR}),
    ],
)
def test_names_are_as_the_kubelet_makes_them(
    node: PreflightNode, host: str, override: str, findings: dict[str, str]
) -> None:
    node.kubelet_process(
        "/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", f"--hostname-override={override}", "--config", "/none"
    )
    assert levels(node.facts(), host=host) == findings


@pytest.mark.parametrize(
    ("machine", "findings"),
    [
        ({"architecture": "aarch64"}, {}),
        ({"architecture": "riscv64"}, {"architecture": ERROR}),
        ({"kernel": "5.4.0-150-generic"}, {"kernel-old": WARNING}),
        ({"kernel": "5.10.0"}, {}),
    ],
)
def test_machines(node: PreflightNode, machine: dict[str, str], findings: dict[str, str]) -> None:
    facts = node.facts()
    base = {"architecture": "x86_64", "kernel": "6.12.1"} | machine
    facts = replace(facts, machine=replace(facts.machine, **base), clock=Clock(1001.0, True, "x"))
    assert {f.id: f.level for f in check_host(facts, ASKED, expected(facts))} == findings


@pytest.mark.parametrize(
    ("now", "findings"),
    [(995.0, {}), (994.9, {"clock-skew": ERROR}), (1007.0, {}), (1007.1, {"clock-skew": ERROR})],
)
def test_a_slow_answer_is_not_skew(node: PreflightNode, now: float, findings: dict[str, str]) -> None:
    facts = node.facts()
    machine = replace(facts.machine, architecture="x86_64", kernel="6.12.1")
    facts = replace(facts, machine=machine, clock=Clock(now, True, "x"))
    assert {f.id: f.level for f in check_host(facts, ASKED, expected(facts))} == findings
    assert [f for f in check_host(facts, None, expected(facts)) if f.id == "clock-skew"] == []


def test_a_control_plane_host_is_asked_less(node: PreflightNode) -> None:
    node.write("proc/1/comm", "runit\n")
    assert levels(replace(node.facts(), worker=None), is_worker=False, is_control_plane=True) == {}


def test_a_host_in_both_groups_is_a_warning(node: PreflightNode) -> None:
    assert levels(node.facts(), is_control_plane=True) == {"control-plane-is-node": WARNING}


LITTLE = Expectations("w1", True, False, {}, 5.0, {}, "disable", True, False, "systemd", True, False)


def judged(probe: dict[str, Any], facts: dict[str, Any], skip: tuple[str, ...] = (), **other: Any) -> dict[str, str]:
    return {finding.id: finding.level for finding in judge(probe, facts, replace(LITTLE, **other), skip).findings}


SKIPPED = {"skipped": True, "changed": False}
UNREACHABLE = {"unreachable": True, "msg": "Connection refused"}


@pytest.mark.parametrize(
    ("probe", "facts", "findings"),
    [
        (UNREACHABLE, SKIPPED, {"unreachable": ERROR}),
        (
            {"failed": True, "msg": "Timed out after 4 second(s).", "timedout": {"period": 4}},
            SKIPPED,
            {"host-hangs": ERROR},
        ),
        ({"rc": 1, "stdout": "", "stderr": "sudo: a password is required"}, SKIPPED, {"no-root": ERROR}),
        ({"stdout": "preflight:uid 1000\npreflight:end\n"}, SKIPPED, {"no-root": ERROR}),
        ({"stdout": "preflight:uid 0\npreflight:end\n"}, SKIPPED, {"python-missing": ERROR}),
        (
            {"stdout": "preflight:uid 0\npreflight:python /usr/bin/python3 3.9.2\npreflight:end\n"},
            SKIPPED,
            {"python-old": ERROR},
        ),
        (
            {
                "stdout": "preflight:uid 0\npreflight:named /opt/python3\n"
                "preflight:python /usr/bin/python3 3.13.5\npreflight:end\n"
            },
            SKIPPED,
            {"python-interpreter": ERROR},
        ),
        (PROBE, UNREACHABLE, {"unreachable": ERROR}),
        (PROBE, {"failed": True, "msg": "Task failed: Timed out after 9 second(s)."}, {"host-hangs": ERROR}),
        (PROBE, {"failed": True, "msg": "this host's state can't be read"}, {"facts-failed": ERROR}),
        (PROBE, {"failed": True}, {"facts-failed": ERROR}),
    ],
)
def test_a_host_that_tells_nothing_is_one_error(
    probe: dict[str, Any], facts: dict[str, Any], findings: dict[str, str]
) -> None:
    assert judged(probe, facts) == findings


def test_a_module_that_crashed_is_told_with_the_hosts_words() -> None:
    crash = {"failed": True, "msg": "Module result deserialization failed", "module_stderr": "x\nthe disk is gone\n"}
    assert [finding.what for finding in judge(PROBE, crash, LITTLE, ()).findings] == [
        "Module result deserialization failed: the disk is gone"
    ]


@pytest.mark.parametrize(
    ("gpus", "finding"),
    [
        ({}, []),
        (SKIPPED, []),
        ({"failed": False, "rc": 2, "msg": "[Errno 2] No such file or directory: b'nvidia-smi'"}, []),
        ({"failed": False, "rc": 0, "stdout": "81920"}, []),
        (
            {"failed": True, "msg": "Timed out after 9 second(s).", "timedout": {"period": 9}},
            [("gpu-driver", ERROR, "nvidia-smi got no answer: Timed out after 9 second(s).")],
        ),
        (
            {"failed": True, "rc": 18, "msg": "non-zero return code", "stdout": "no NVML:\nmismatch\n", "stderr": ""},
            [("gpu-driver", ERROR, "nvidia-smi failed: no NVML: mismatch")],
        ),
        ({"failed": True, "msg": "a broken Python"}, [("gpu-driver", ERROR, "nvidia-smi failed: a broken Python")]),
        (UNREACHABLE, [("unreachable", ERROR, "it answered once, then no more: Connection refused")]),
    ],
)
def test_a_gpu_driver_that_does_not_answer_is_told(
    node: PreflightNode, gpus: dict[str, Any], finding: list[tuple[str, str, str]]
) -> None:
    facts = {"node": asdict(node.facts())}
    told = judge(PROBE, facts, LITTLE, (), gpus).findings
    other = judge(PROBE, facts, LITTLE, ()).findings
    assert [(one.id, one.level, one.what) for one in told if one not in other] == finding


def test_hosts_that_do_not_answer_may_be_allowed() -> None:
    assert judged(UNREACHABLE, SKIPPED, allow_unreachable=True) == {"unreachable": WARNING}
    assert judged(PROBE, UNREACHABLE, allow_unreachable=True) == {"unreachable": WARNING}


def test_skipped_names_become_warnings_and_wrong_ones_are_errors() -> None:
    assert judged(UNREACHABLE, SKIPPED, ("unreachable",)) == {"unreachable": WARNING}
    assert judged(UNREACHABLE, SKIPPED, ("cgroup-v2",)) == {"unreachable": ERROR, "unknown-check": ERROR}


def test_facts_pass_through_json(node: PreflightNode) -> None:
    node.write("proc/1/comm", "runit\n")
    carried = json.loads(json.dumps(asdict(node.facts())))
    result = judge(
        PROBE,
        {"node": carried, "asked_at": 1.0, "answered_at": 2e12},
        replace(LITTLE, systems={"debian": ("13",)}, disk_free_mib={"/var": 0}),
        (),
    )
    assert "not-systemd" in [finding.id for finding in result.findings]
    assert (result.machine_id, result.kubelet_version) == ("0123456789abcdef", "1.36.3")


def test_facts_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="NodeFacts: without clock, worker"):
        judged(PROBE, {"node": {"machine": {}}})
