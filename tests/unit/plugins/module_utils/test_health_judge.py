# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A healthy node is broken in one way at a time; exactly what follows from that must be found, and the right steps."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils import (
    _health_judge,
    _health_judge_services,
    _kube_config,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import Condition, CriAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import CHECKS, CRITICAL, STEPS
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_judge import Want, check_disk
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_ladder import foretell, is_healthy, units_of
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_mend import plan_files
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import Disk
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import (
    CONFIG,
    CURRENT,
    DAY,
    NOW,
    READY,
    HealthNode,
    client_certificate,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import DUMP, DUMP_COMMAND, SERVER

Break = Callable[[HealthNode], object]
CONF = "etc/kubernetes/kubelet.conf"
CA = "etc/kubernetes/pki/ca.crt"
SWAPS = "Filename Type Size Used Priority\n/swapfile file 65532 0 -2\n"
PROXY = "/var/run/cri-resmgr/cri-resmgr.sock"
SAYS = '{{"version": "1", "summary": "", "problems": {}, "facts": {}, "tables": []}}'
FAILED = 'E1119 01:22:33.123456    1234 run.go:72] "command failed" err="running with swap on is not supported"\n'


@pytest.fixture
def node() -> Iterator[HealthNode]:
    with tempfile.TemporaryDirectory(prefix="hn-", dir="/tmp") as place:  # short, for sockets
        yield HealthNode(Path(place))


def remove(*names: str) -> Break:
    return lambda node: [(node.root / name).unlink() for name in names]


def write(name: str, text: str) -> Break:
    return lambda node: node.write(name, text)


def record(name: str, text: str, age: float) -> Break:
    """A file in which CNI notes a pod's network."""

    def do(node: HealthNode) -> None:
        node.write(f"var/lib/cni/results/{name}", text)
        os.utime(node.root / f"var/lib/cni/results/{name}", (NOW - age, NOW - age))

    return do


def unit(name: str, **properties: str) -> Break:
    return lambda node: node.unit(name, **properties)


def stopped(name: str, enablement: str = "disabled") -> Break:
    return unit(name, ActiveState="inactive", SubState="dead", UnitFileState=enablement)


def command(words: str, code: int, out: str, err: str = "") -> Break:
    return lambda node: node.answers.update({words: (code, out, err)})


def runtime(problem: str = "", *conditions: Condition, systemd: bool | None = True) -> Break:
    return lambda node: setattr(node, "runtime", CriAnswer("s", problem, conditions or READY, systemd))


def api(status: int, error: str = "", certificate: str = "verified", said: str = "", clock: float = NOW) -> Break:
    return lambda node: setattr(node, "api", ApiAnswer(SERVER, status, error, certificate, said, clock))


def of_node(**changes: object) -> Break:
    return lambda node: setattr(node, "node", dataclasses.replace(node.node, **changes))


def certificates(current: str, *others: str) -> Break:
    """What the kubelet's link leads to, and what lies beside it."""

    def change(node: HealthNode) -> None:
        (node.root / "var/lib/kubelet/pki/kubelet-client-2026.pem").unlink()
        node.write("var/lib/kubelet/pki/kubelet-client-now.pem", current)
        node.link("kubelet-client-now.pem")
        for number, text in enumerate(others):
            node.write(f"var/lib/kubelet/pki/kubelet-client-{number}.pem", text)

    return change


def with_page(code: int, said: str) -> Break:
    """An agent that is up, and what it answers."""

    def change(node: HealthNode) -> None:
        node.agent("colocation-device-plugin.service", "3.13")
        node.write("etc/x.yaml", "status:\n  port: 9461\n")
        node.page = (code, said)

    return change


def several(*changes: Break) -> Break:
    return lambda node: [change(node) for change in changes]


def without_pki(node: HealthNode) -> None:
    (node.root / CURRENT).unlink()
    (node.root / "var/lib/kubelet/pki/kubelet-client-2026.pem").unlink()


def dead_socket(node: HealthNode) -> None:
    place = node.root / "var/lib/kubelet/device-plugins"
    place.mkdir(parents=True)
    for name in ("gone.sock", "kubelet.sock"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / name))
    (place / "link.sock").symlink_to("nowhere")


def no_driver(node: HealthNode) -> None:
    node.write("var/lib/kubelet/config.yaml", CONFIG.replace("cgroupDriver: systemd\n", ""))


ENDED = client_certificate(NOW - 400 * DAY, NOW - DAY)
GOOD = client_certificate()
NOT_YET = client_certificate(NOW + DAY, NOW + 9 * DAY)
NOT_READY = of_node(readiness=Readiness(False, "KubeletNotReady: PLEG is not healthy"))

# How it is broken: what must be found, and the steps that mend it.
WAYS: dict[str, tuple[Break, set[str], list[str]]] = {
    "healthy": (lambda node: None, set(), []),
    # containerd
    "containerd stopped": (
        stopped("containerd.service"), {"containerd-disabled", "containerd-stopped"}, ["containerd"],
    ),
    "containerd masked": (
        unit("containerd.service", LoadState="masked", ActiveState="inactive"), {"containerd-masked"}, ["containerd"],
    ),
    "containerd fails": (
        unit("containerd.service", ActiveState="failed", Result="exit-code"), {"containerd-stopped"}, ["containerd"],
    ),
    "containerd can't read its config": (
        several(
            command(DUMP_COMMAND, 1, "", "containerd: failed to load TOML"),
            unit("containerd.service", ActiveState="failed"),
        ),
        {"containerd-config", "containerd-stopped"},
        ["containerd"],
    ),
    "cri disabled": (
        several(
            command(DUMP_COMMAND, 0, DUMP.replace("[]", '["cri"]')),
            runtime("s: it answers unimplemented: unknown service runtime.v1.RuntimeService"),
        ),
        {"containerd-cri-disabled"},
        ["containerd"],
    ),
    "cgroupfs in the file": (
        command(DUMP_COMMAND, 0, DUMP.replace("= true", "= false")), {"containerd-cgroup-driver"}, ["containerd"],
    ),
    "cgroupfs in the process": (runtime(systemd=False), {"containerd-cgroup-driver"}, ["containerd"]),
    "the kubelet's default is cgroupfs": (no_driver, {"containerd-cgroup-driver"}, ["containerd"]),
    "the kubelet takes containerd's driver": (
        several(no_driver, command("/usr/bin/containerd --version", 0, "containerd x 2.1.4 abc\n")), set(), [],
    ),
    "containerd hangs": (runtime("s did not answer within 5 s"), {"containerd-silent"}, ["containerd"]),
    "containerd not ready": (
        runtime("", Condition("RuntimeReady", "False", "x"), READY[1]), {"containerd-not-ready"}, ["containerd"],
    ),
    "no network": (
        several(
            runtime("", READY[0], Condition("NetworkReady", "False", "NetworkPluginNotReady")),
            remove("etc/cni/net.d/10-net.conflist"),
            of_node(readiness=Readiness(False, "KubeletNotReady: cni plugin not initialized")),
        ),
        {"cni-missing", "node-not-ready"},
        [],
    ),
    "CNI's notes of pods are cut": (
        several(record("a", "", 61), record("b", '{"kind": "cniCacheV1"', 3600)), {"cni-record"}, ["containerd"],
    ),
    "CNI's note of a pod is being written": (record("a", "", 59), set(), []),
    "CNI's note of a pod can be read": (record("a", '{"kind": "cniCacheV1"}', 3600), set(), []),
    "a note of CNI's is huge": (record("a", '{"kind": "' + "x" * (1 << 20) + '"}', 3600), set(), []),
    "containerd gone": (remove("usr/bin/containerd"), {"containerd-missing"}, ["containerd"]),
    "containerd's unit gone": (
        remove("usr/lib/systemd/system/containerd.service"), {"containerd-no-unit"}, [],
    ),
    "another runtime": (
        write("var/lib/kubelet/config.yaml", CONFIG.replace("containerd/containerd", "crio/crio")),
        {"runtime-other"},
        [],
    ),
    # swap
    "swap on": (write("proc/swaps", SWAPS), {"swap-on"}, ["swap"]),
    "swap at boot": (write("etc/fstab", "/swapfile none swap sw 0 0\n"), {"swap-at-boot"}, ["swap"]),
    "swap allowed": (
        several(write("proc/swaps", SWAPS), write("var/lib/kubelet/config.yaml", CONFIG + "failSwapOn: false\n")),
        set(),
        [],
    ),
    "swap and a dead containerd": (
        several(write("proc/swaps", SWAPS), stopped("containerd.service", "enabled")),
        {"swap-on", "containerd-stopped"},
        ["containerd", "swap"],
    ),
    "swap ends the kubelet": (
        several(write("proc/swaps", SWAPS), lambda node: node.crash("kubelet.service", FAILED)),
        {"swap-on", "kubelet-crashing"},
        ["swap"],
    ),
    # the kubelet
    "kubelet off": (stopped("kubelet.service"), {"kubelet-disabled", "kubelet-stopped"}, ["restart"]),
    "kubelet masked": (
        unit("kubelet.service", LoadState="masked", ActiveState="inactive"), {"kubelet-masked"}, ["restart"],
    ),
    "kubelet not at boot": (unit("kubelet.service", UnitFileState="disabled"), {"kubelet-disabled"}, ["restart"]),
    "kubelet crashes": (lambda node: node.crash("kubelet.service", FAILED), {"kubelet-crashing"}, ["restart"]),
    "kubelet is up between two crashes": (
        several(
            lambda node: node.crash("kubelet.service", FAILED, "running", int(time.monotonic() * 1e6)),
            of_node(readiness=Readiness(False, "its kubelet has not spoken")),
        ),
        {"kubelet-crashing"},
        ["restart"],
    ),
    "kubelet crashed, and is well again": (
        lambda node: node.crash("kubelet.service", FAILED, "running", int(time.monotonic() * 1e6)), set(), [],
    ),
    "kubelet gone": (remove("usr/bin/kubelet", "proc/812/comm"), {"kubelet-missing"}, []),
    "kubelet's unit gone": (remove("usr/lib/systemd/system/kubelet.service"), {"kubelet-no-unit"}, []),
    "kubelet from a snap": (
        lambda node: node.kubelet_process("/snap/kubelet/1/kubelet", "0::/system.slice/snap.kubelet.daemon.service\n"),
        {"kubelet-snap"},
        [],
    ),
    "k3s": (
        several(
            write("usr/lib/systemd/system/k3s-agent.service", ""),
            unit("k3s-agent.service", LoadState="loaded", ActiveState="active"),
        ),
        {"kubelet-bundled"},
        [],
    ),
    # its files
    "kubelet.conf lost": (remove(CONF), {"kubelet-kubeconfig"}, ["kubelet"]),
    "kubelet.conf empty": (write(CONF, "\n"), {"kubelet-kubeconfig"}, ["kubelet"]),
    "kubelet.conf broken": (write(CONF, "apiVersion: v1\nclusters: [{"), {"kubelet-kubeconfig"}, ["kubelet"]),
    "kubelet.conf and certificates lost": (
        several(remove(CONF), without_pki), {"kubelet-identity-lost"}, ["rejoin"],
    ),
    "certificates lost": (without_pki, {"kubelet-identity-lost"}, ["rejoin"]),
    "certificate empty, an older one is there": (certificates("", GOOD), {"kubelet-certificate-link"}, ["kubelet"]),
    "certificate ended, a newer one is there": (certificates(ENDED, GOOD), {"kubelet-certificate-link"}, ["kubelet"]),
    "certificate without its key is no way out": (
        certificates(ENDED, GOOD.partition("-----BEGIN EC")[0]), {"kubelet-certificate-ended"}, ["rejoin"],
    ),
    "certificate ended": (certificates(ENDED), {"kubelet-certificate-ended"}, ["rejoin"]),
    "certificate of the future": (certificates(NOT_YET), {"kubelet-certificate-ended"}, ["rejoin"]),
    "certificate ends soon": (
        certificates(client_certificate(NOW - 360 * DAY, NOW + 5 * DAY)), {"kubelet-certificate-ending"}, [],
    ),
    "certificate that lives a day": (certificates(client_certificate(NOW - 0.5 * DAY, NOW + 0.5 * DAY)), set(), []),
    "authority's file lost": (remove(CA), {"kubelet-ca-file"}, ["kubelet"]),
    "authority ends": (
        write(CA, made.certificate("kubernetes", 0, NOW + 30 * DAY, group="")), {"ca-ending"}, [],
    ),
    "authority ended": (write(CA, made.certificate("kubernetes", 0, NOW - DAY, group="")), {"ca-ended"}, []),
    "configuration lost": (remove("var/lib/kubelet/config.yaml"), {"kubelet-config"}, ["kubelet"]),
    "configuration cut off": (write("var/lib/kubelet/config.yaml", CONFIG[:120]), {"kubelet-config"}, ["kubelet"]),
    "configuration odd, but the kubelet runs": (
        write("var/lib/kubelet/config.yaml", CONFIG + "tlsCipherSuites: [a,\n  b]\n"), set(), [],
    ),
    "configuration odd, and the kubelet ends": (
        several(
            write("var/lib/kubelet/config.yaml", CONFIG + "x: y: z\n"), lambda node: node.crash("kubelet.service", ""),
        ),
        {"kubelet-config", "kubelet-crashing"},
        ["kubelet"],
    ),
    "a rejoin was killed": (
        several(write("var/lib/colocation/rejoin.json", '{"operation": "1"}'), stopped("kubelet.service", "enabled")),
        {"rejoin-unfinished", "kubelet-stopped"},
        ["rejoin"],
    ),
    # the machine
    "cgroup v1": (
        write("proc/self/mountinfo", "24 22 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n"), {"cgroup-v1"}, [],
    ),
    "no memory controller": (write("sys/fs/cgroup/cgroup.controllers", "cpu pids\n"), {"cgroup-controllers"}, []),
    "processes": (write("proc/sys/kernel/pid_max", "350\n"), {"pids-low"}, []),
    "clock ahead": (api(401, clock=NOW - 60), {"clock-skew"}, []),
    "clock behind": (api(401, clock=NOW + 60), {"clock-skew"}, []),
    "clock right to the second": (api(401, clock=NOW - 0.9), set(), []),
    "clock not kept": (command("timedatectl show", 0, "NTPSynchronized=no\n"), {"clock-unsynchronized"}, []),
    # the API
    "API unreachable": (api(0, "Connection refused"), {"api-unreachable"}, []),
    "API ill": (api(500), {"api-unhealthy"}, []),
    "API of another cluster": (
        api(401, certificate="refused", said="self-signed certificate in certificate chain"),
        {"api-other-cluster"},
        ["rejoin"],
    ),
    "API with an old certificate": (
        api(401, certificate="refused", said="certificate has expired"), {"api-certificate"}, [],
    ),
    "Node gone": (of_node(status=404, problem="not found"), {"node-missing"}, ["restart"]),
    "Node's certificate refused": (of_node(status=401, problem="Unauthorized"), {"node-refused"}, ["rejoin"]),
    "Node forbidden": (of_node(status=403, problem="forbidden"), {"node-unknown"}, []),
    "not ready": (NOT_READY, {"node-not-ready"}, ["restart"]),
    "not ready, for the kubelet is off": (
        several(NOT_READY, stopped("kubelet.service", "enabled")), {"kubelet-stopped"}, ["restart"],
    ),
    "pressure": (of_node(conditions=(Condition("DiskPressure", "True"),)), {"node-pressure"}, []),
    "network unavailable": (of_node(conditions=(Condition("NetworkUnavailable", "True"),)), {"node-network"}, []),
    "cordoned": (of_node(cordoned=True), {"node-cordoned"}, []),
    # devices and agents
    "leftover": (of_node(leftovers=("mock.com/gpu=10",)), {"resource-leftover"}, []),
    "dead sockets": (dead_socket, {"device-sockets"}, []),
    "checkpoint half": (
        write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", '{"Data": {'), {"device-checkpoint"}, [],
    ),
    "checkpoint changed": (
        write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", '{"Data": {}, "Checksum": 1}'),
        {"device-checkpoint"},
        [],
    ),
    "agent well": (lambda node: node.agent("colocation-device-plugin.service", "3.13"), set(), []),
    "agent failed": (
        lambda node: node.agent("colocation-device-plugin.service", "3.13", "failed"), {"agent-failed"}, ["restart"],
    ),
    "agent off": (
        several(
            lambda node: node.agent("colocation-device-plugin.service", "3.13", "inactive"),
            unit("colocation-device-plugin.service", UnitFileState="disabled"),
        ),
        set(),
        [],
    ),
    "cordoned by a rejoin that was killed": (of_node(cordoned=True, rejoining=True), {"rejoin-unfinished"}, ["rejoin"]),
    "agent silent": (with_page(0, "connection refused"), {"agent-silent"}, ["restart"]),
    "agent with problems": (with_page(200, SAYS.format('["it waits"]', "{}")), {"agent-problem"}, []),
    "agent with a warning": (with_page(200, SAYS.format("[]", '{"warning": "idle"}')), {"agent-problem"}, []),
    "agent of an older Python": (
        lambda node: node.agent("colocation-device-plugin.service", "3.11", "failed"),
        {"agent-failed", "agent-python"},
        [],
    ),
    "agent of a Python that was kept": (
        several(
            lambda node: node.agent("colocation-device-plugin.service", "3.11"),
            lambda node: node.write("usr/bin/python3.11", "").chmod(0o755),
        ),
        {"agent-python"},
        [],
    ),
    "proxy dead": (
        several(
            lambda node: node.agent("cri-resource-manager.service", "3.13"),
            write("var/lib/kubelet/config.yaml", CONFIG.replace("/run/containerd/containerd.sock", PROXY)),
            lambda node: setattr(node, "endpoint", CriAnswer(PROXY, "did not answer")),
        ),
        {"endpoint-silent"},
        ["restart"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_what_is_broken_is_found_and_nothing_else(node: HealthNode, way: str) -> None:
    change, ids, steps = WAYS[way]
    change(node)
    findings = node.findings()
    assert {finding.id for finding in findings} == ids
    assert len(findings) == len(ids)
    assert foretell(findings) == steps
    worse = [finding for finding in findings if finding.severity == CRITICAL or finding.steps]
    assert is_healthy(findings) == (not worse)


def test_every_check_is_found_by_some_way_or_told_why_not() -> None:
    ways = set().union(*(ids for _change, ids, _steps in WAYS.values()))
    elsewhere = {"disk-read-only", "disk-full", "disk-low", "disk-inodes", "not-looked-at", "kubelet-not-systemd"}
    assert set(CHECKS) - ways - elsewhere == {"api-unknown", "kubelet-kubeconfig-unread"}


def test_the_steps_of_the_table_are_steps() -> None:
    for check in CHECKS.values():
        assert list(check.steps) == sorted(check.steps, key=STEPS.index)


@pytest.mark.parametrize(
    ("disk", "id_"),
    [
        (Disk("/", "/", 1000, 500, 10**6, False), ""),
        (Disk("/", "/", 1000, 99, 10**6, False), "disk-low"),
        (Disk("/", "/", 1000, 9, 10**6, False), "disk-full"),
        (Disk("/", "/", 1000, 500, 9999, False), "disk-inodes"),
        (Disk("/", "/", 1000, 500, None, False), ""),
        (Disk("/", "/", 1000, 0, 0, True), "disk-read-only"),
    ],
)
def test_disks(disk: Disk, id_: str) -> None:
    assert [finding.id for finding in check_disk(disk)] == ([id_] if id_ else [])


def test_a_kubelet_that_somebody_else_runs(node: HealthNode) -> None:
    node.kubelet_process("/usr/bin/kubelet", "0::/docker/abc\n")
    assert "kubelet-not-systemd" in node.ids()


def test_a_kubeconfig_that_names_no_server_to_ask(node: HealthNode) -> None:
    facts = dataclasses.replace(node.looked(), api=None)
    assert [finding.id for finding in _health_judge.check_api(None, facts)] == ["api-unknown"]


def test_the_last_error_is_the_evidence(node: HealthNode) -> None:
    node.crash("kubelet.service", FAILED)
    (finding,) = node.findings()
    assert finding.evidence == (
        "kubelet.service is activating (auto-restart), started again 7 times by systemd; "
        "last error: running with swap on is not supported"
    )


def test_only_what_runs_and_is_ill_is_restarted(node: HealthNode) -> None:
    node.agent("colocation-device-plugin.service", "3.13", "failed")
    node.unit("kubelet.service", UnitFileState="disabled")
    assert units_of(node.findings()) == {"start": ["kubelet.service"], "restart": ["colocation-device-plugin.service"]}
    node.node = dataclasses.replace(node.node, status=404, problem="gone")
    assert units_of(node.findings())["start"] == []


def test_limits_of_the_user(node: HealthNode) -> None:
    node.api = dataclasses.replace(node.api, clock=NOW - 60)
    assert node.findings(Want(clock_skew_limit=120)) == []
    certificates(client_certificate(NOW - 380 * DAY, NOW + 20 * DAY))(node)
    assert node.findings(Want(14, 90, 120)) == []
    assert [found.id for found in node.findings(Want(30, 90, 120))] == ["kubelet-certificate-ending"]


def test_a_part_that_hangs_or_breaks_is_told_and_the_others_go_on(node: HealthNode) -> None:
    node.write("proc/swaps", "Filename Type Size Used Priority\nnonsense\n")
    node.write("proc/loadavg", "")
    findings = node.findings()
    assert [finding.id for finding in findings] == ["not-looked-at", "not-looked-at"]
    assert findings[0].evidence.startswith("processes: ") and findings[1].evidence.startswith("swap: ")


def test_the_api_is_asked_about_the_node_that_the_certificate_names(node: HealthNode) -> None:
    checkpoint = '{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}, "Checksum": 0}'
    node.write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", checkpoint)
    node.findings()
    assert node.asked_node == [("worker1", NOW - 60, None)]  # a checkpoint that is not believed tells nothing


PROGRAM = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/usr/bin/aws-iam-authenticator"}}
ELSEWHERE = "var/lib/kubelet/kubeconfig"


def of_a_cloud(node: HealthNode, user: dict[str, object]) -> None:
    """Its kubelet has another kubeconfig than kubeadm's, and a file for its other flags."""
    (node.root / CONF).unlink()
    node.write(ELSEWHERE, made.kubeconfig(user, server=SERVER))
    flags = ("--kubeconfig", f"/{ELSEWHERE}", "--config=/var/lib/kubelet/config.yaml", "--hostname-override=ip-10-0-1")
    node.kubelet_process("/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", *flags)


@pytest.mark.parametrize("user", [PROGRAM, {"token": "t"}, {"tokenFile": "/run/t"}])
def test_a_kubelet_without_a_certificate_has_no_findings_of_one(node: HealthNode, user: dict[str, object]) -> None:
    of_a_cloud(node, user)
    certificates(ENDED, GOOD)(node)  # left from other days
    assert node.ids() == []
    assert node.asked_node[-1][0] == "ip-10-0-1"
    shutil.rmtree(node.root / "var/lib/kubelet/pki")
    assert node.ids() == []


def test_kubeadms_place_without_a_certificate(node: HealthNode) -> None:
    node.proves(**PROGRAM)
    certificates(ENDED)(node)
    assert node.ids() == []


FLOW = f"""\
clusters:
- name: c
  cluster: {{server: {SERVER}}}
users:
- name: u
  user: {{exec: {{command: /usr/bin/own}}}}
contexts:
- name: x
  context: {{cluster: c, user: u}}
current-context: x
"""


@pytest.mark.parametrize("form", ["flow", "a proxy", "JSON that was cut", "YAML that was cut"])
def test_a_kubeconfig_that_only_the_kubelet_understands_is_not_lost(
    node: HealthNode, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)  # as on nodes
    pem = {"client-certificate": f"/{CURRENT}", "client-key": f"/{CURRENT}"}
    texts = {
        "flow": FLOW,
        "a proxy": made.kubeconfig(pem, **{"server": SERVER, "proxy-url": "socks5://10.0.0.9:1080"}),
        "JSON that was cut": made.kubeconfig(pem, server=SERVER)[:-30],
        "YAML that was cut": FLOW[: FLOW.index("contexts")],
    }
    node.write(CONF, texts[form])
    node.write("var/lib/kube-proxy/kubeconfig.conf", made.kubeconfig({}, server=SERVER))
    found = [(one.id, one.severity, one.steps) for one in node.findings()]
    plan = plan_files(node.looked().files, NOW)
    if form.endswith("cut"):
        assert found == [("kubelet-kubeconfig", "critical", ("kubelet", "rejoin"))] and plan.mendings
        return
    assert found == [("kubelet-kubeconfig-unread", "warning", ())]
    assert plan.mendings == () == plan.left
    (node.root / "var/lib/kubelet/config.yaml").unlink()
    without_pki(node)
    assert [(one.id, one.steps) for one in node.findings() if one.severity == "critical"] == [("kubelet-config", ())]


LOST_ELSEWHERE: dict[str, tuple[Break, str, list[str]]] = {
    "kubeconfig": (remove(ELSEWHERE), "kubelet-identity-lost", []),
    "configuration": (remove("var/lib/kubelet/config.yaml"), "kubelet-config", []),
    "authority's file": (remove(CA), "kubelet-ca-file", []),
    "proof": (of_node(status=401, problem="Unauthorized"), "node-refused", []),
    "another authority": (api(0, "", "refused", "self-signed certificate"), "api-other-cluster", []),
    "Node": (of_node(status=404, problem="gone"), "node-missing", ["restart"]),
    "kubelet": (stopped("kubelet.service", "enabled"), "kubelet-stopped", ["restart"]),
}


@pytest.mark.parametrize("lost", LOST_ELSEWHERE)
def test_what_kubeadm_does_not_mend_is_not_proposed_where_it_did_not_join(node: HealthNode, lost: str) -> None:
    of_a_cloud(node, PROGRAM)
    change, id_, steps = LOST_ELSEWHERE[lost]
    change(node)
    (finding,) = [one for one in node.findings() if one.id == id_]
    assert list(finding.steps) == steps
    assert steps or finding.remedy.startswith("Have it made anew by what made the node, not kubeadm")
    assert "/var/lib/kubelet/kubeconfig" in finding.remedy or steps


def test_a_certificate_elsewhere_is_judged_as_kubeadms(node: HealthNode) -> None:
    of_a_cloud(node, {"client-certificate": f"/{CURRENT}", "client-key": f"/{CURRENT}"})
    assert node.ids() == []
    certificates(ENDED, GOOD)(node)
    (finding,) = node.findings()
    assert (finding.id, finding.steps) == ("kubelet-certificate-link", ("kubelet",))


def test_what_a_kubelet_was_never_told_is_not_lost(node: HealthNode) -> None:
    of_a_cloud(node, PROGRAM)
    node.write("var/lib/kubelet/config.yaml", CONFIG.replace("    clientCAFile: /etc/kubernetes/pki/ca.crt\n", ""))
    (node.root / CA).unlink()
    assert node.ids() == []
    (node.root / "var/lib/kubelet/config.yaml").unlink()
    flags = (f"--kubeconfig=/{ELSEWHERE}", "--cgroup-driver=systemd")
    node.kubelet_process("/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", *flags)
    assert node.ids() == []


def test_a_driver_is_not_judged_by_a_configuration_that_is_lost(node: HealthNode) -> None:
    (node.root / "var/lib/kubelet/config.yaml").unlink()
    node.answers[DUMP_COMMAND] = (0, DUMP.replace("= true", "= false"), "")
    assert node.ids() == ["kubelet-config"]
    assert _health_judge_services.DEFAULT_DRIVER == "cgroupfs"


FILES = (
    "etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml", "proc/swaps",
    "etc/fstab", "proc/self/mountinfo", "proc/loadavg", "proc/meminfo", "proc/812/cmdline",
    "etc/cni/net.d/10-net.conflist", "var/lib/cni/results/a",
    "var/lib/kubelet/pki/kubelet-client-2026.pem", "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
    "opt/colocation/releases/0.1.0-0123456789ab/RELEASE.json", "etc/systemd/system/colocation-device-plugin.service",
    "var/lib/kube-proxy/kubeconfig", "var/lib/kubelet/instance-config.yaml",
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FILES), st.binary(max_size=60) | st.none(), min_size=1, max_size=6))
def test_no_damage_makes_a_look_fail(damage: dict[str, bytes | None]) -> None:
    """Whatever stands in the files, there are findings and no exception; a directory in place of a file too."""
    with tempfile.TemporaryDirectory() as place:
        node = HealthNode(Path(place))
        node.agent("colocation-device-plugin.service", "3.13")
        for name, content in damage.items():
            path = node.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink(missing_ok=True)
                path.mkdir()
            else:
                path.write_bytes(content)
        for finding in node.findings():
            assert finding.id in CHECKS and "Traceback" not in finding.evidence
