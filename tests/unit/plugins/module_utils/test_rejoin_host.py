# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _rejoin_host, _rejoin_look
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import (
    Container,
    RuntimeSilent,
    Sandbox,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_host import HostSide, pods_processes
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_look import (
    Mark,
    Places,
    kept_files,
    look_at_host,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_mounts import MountError
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import KeptFile, RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import FakeSystemd

AGENT, PROXY = "colocation-device-plugin.service", "cri-resource-manager.service"
WAY: dict[str, Any] = {"endpoint": "10.0.0.1:6443", "pins": ["sha256:aa"], "token": "abcdef.0123456789abcdef"}


def _kept(path: str, text: str, mode: int = 0o644) -> KeptFile:
    return KeptFile(path, base64.b64encode(text.encode()).decode(), mode, os.geteuid(), os.getegid())


class RuntimeDouble:
    """A container runtime with containers that end when they are told, or don't."""

    socket = "/run/containerd/containerd.sock"

    def __init__(self) -> None:
        self.containers = [Container("c1"), Container("c2", 5)]
        self.pods = [Sandbox("p1", "default/a", True), Sandbox("p2", "default/b", False)]
        self.refuses = ""  # the network can't be taken down
        self.stubborn = False
        self.silent = False
        self.calls: list[str] = []

    def version(self) -> str:
        if self.silent:
            raise RuntimeSilent("Version: no answer")
        return "containerd double"

    def running(self) -> list[Container]:
        return list(self.containers)

    def sandboxes(self) -> list[Sandbox]:
        return list(self.pods)

    def stop_container(self, container: str, grace: int) -> None:
        self.calls.append(f"stop {container} {grace}")
        if not self.stubborn:
            self.containers = [one for one in self.containers if one.id != container]

    def stop_sandbox(self, sandbox: str) -> None:
        self.calls.append(f"stop {sandbox}")
        if self.refuses:
            raise RuntimeSilent(self.refuses)


class Machine:
    """A host in a directory: units, a runtime, kubeadm, mounts."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        for path in ("var/lib/kubelet/pods", "etc/cni/net.d", "var/lib/cni/networks", "etc/kubernetes/pki", "proc",
                     "usr/bin", "sys/class/net/cni0"):  # fmt: skip
            (self.root / path).mkdir(parents=True)
        for path in ("etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml",
                     "etc/cni/net.d/10-own.conflist", "var/lib/cni/networks/1", "usr/bin/kubeadm"):  # fmt: skip
            (self.root / path).write_text("old\n")
        (self.root / "usr/bin/kubeadm").chmod(0o755)
        (self.root / "etc/machine-id").write_text("abc\n")
        self.systemd = FakeSystemd(self.root)
        for unit in ("kubelet.service", AGENT):
            self.systemd.install(unit, active="active", enablement="enabled")
        self.runtime = RuntimeDouble()
        self.mountinfo = place / "mountinfo"
        self.mountinfo.write_text("")
        self.commands: list[list[str]] = []
        self.configuration: dict[str, Any] = {}
        self.configuration_mode = 0
        self.joins = True
        self.now = 0.0
        self.places = Places(
            "w", PROXY, "/run/proxy.sock", (AGENT,), ("/var/lib/kubelet/seccomp/**",), str(place / "s")
        )

    @property
    def side(self) -> HostSide:
        units = Systemd(self.systemd, str(self.root), clock=self.systemd.clock, sleep=self.systemd.sleep)
        return HostSide(
            units,
            self.runtime,  # type: ignore[arg-type]
            self.places,
            root=str(self.root),
            run=self.run,
            mountinfo=str(self.mountinfo),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, command: list[str], _seconds: float) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[1:2] == ["version"]:
            return 0, "v1.36.3\n", ""
        if command[1:2] == ["join"]:
            path = Path(command[-1])
            self.configuration = json.loads(path.read_text())
            self.configuration_mode = stat.S_IMODE(path.stat().st_mode)
            if not self.joins:
                return 1, "", f"error: the token {WAY['token']} is not valid"
            for name in ("kubelet.conf", "bootstrap-kubelet.conf"):
                (self.root / "etc/kubernetes" / name).write_text("new\n")
        return 0, "", ""

    def kubelet_process(self) -> None:
        process = self.root / "proc/77"
        process.mkdir()
        (process / "comm").write_text("kubelet\n")
        (process / "cmdline").write_text("/usr/bin/kubelet\0")

    def look(self) -> Any:
        units = Systemd(self.systemd, str(self.root))

        def run(command: list[str]) -> tuple[int, str, str]:
            return self.run(command, 0)

        return look_at_host(str(self.root), run, units, self.runtime, self.places)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_stop_ends_the_kubelet_first_then_agents_and_pods_and_proves_it(machine: Machine) -> None:
    proof = machine.side.stop("op", "w", 30, 10)
    assert proof == {"operation": "op", "stopped": True, "unmounted": []}
    assert machine.systemd.changes() == ["stop kubelet.service", f"stop {AGENT}"]
    assert sorted(machine.runtime.calls[:2]) == ["stop c1 30", "stop c2 5"]
    assert machine.runtime.calls[2:] == ["stop p1"]
    assert machine.side.stop("op", "w", 30, 10)["stopped"]  # again


def test_whoever_looks_while_the_host_is_taken_out_is_told(machine: Machine) -> None:
    machine.kubelet_process()  # so it is killed before anything is proven
    with pytest.raises(RejoinRefused):
        machine.side.stop("op", "w", 30, 10)
    mark = Path(machine.places.state_dir, "rejoin.json")
    assert json.loads(mark.read_text()) == {"leaving": "op", "node": "w"}
    assert Mark(machine.places.state_dir).read() == ("", "w")  # it says nothing of the old identity
    mark.unlink()
    Mark(machine.places.state_dir).write("op", "w")
    with pytest.raises(RejoinRefused):
        machine.side.stop("op", "w", 30, 10)
    assert Mark(machine.places.state_dir).read() == ("op", "w")


def test_a_network_that_cant_be_taken_down_is_no_reason_to_stay(machine: Machine) -> None:
    machine.runtime.refuses = "StopPodSandbox: the network's daemon is gone"
    assert machine.side.stop("op", "w", 30, 10)["stopped"]
    machine.runtime.containers = [Container("c3", 3600)]
    machine.runtime.stubborn = True
    with pytest.raises(RejoinRefused, match=r"1 containers run: c3 \(StopPodSandbox: the network"):
        machine.side.stop("op", "w", 30, 10)


def test_a_process_in_a_pods_group_is_no_proof(machine: Machine) -> None:
    group = machine.root / "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/pod1/cri-1.scope"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("4711\n")
    assert pods_processes(str(machine.root)) == [4711]
    with pytest.raises(RejoinRefused, match="processes of pods live: 4711"):
        machine.side.stop("op", "w", 30, 10)


def test_a_kubelet_beside_its_unit_is_no_proof(machine: Machine) -> None:
    machine.kubelet_process()
    with pytest.raises(RejoinRefused, match="a kubelet runs although"):
        machine.side.stop("op", "w", 30, 10)
    with pytest.raises(RejoinRefused, match="a kubelet runs although"):
        machine.side.reset("op", "w", [], 10)
    assert (machine.root / "etc/kubernetes/kubelet.conf").exists()


def test_nothing_is_deleted_beneath_a_mount_that_stays(machine: Machine) -> None:
    machine.side.stop("op", "w", 30, 10)
    point = machine.root / "var/lib/kubelet/pods/1/volumes/data"
    point.mkdir(parents=True)
    (point / "file").write_text("precious")
    machine.mountinfo.write_text(f"1 2 0:1 / {point} rw - ext4 /dev/sda rw\n")
    with pytest.raises(MountError, match="volumes/data"):
        machine.side.reset("op", "w", [], 10)
    assert ["kubeadm", "reset"] not in [[Path(one[0]).name, one[1]] for one in machine.commands]
    assert (point / "file").read_text() == "precious"


def test_reset_takes_all_of_the_old_identity_and_leaves_the_mark(machine: Machine) -> None:
    machine.side.stop("op", "w", 30, 10)
    removed = machine.side.reset("op", "w", ["cni0", "flannel.1"], 10)
    socket = "unix:///run/containerd/containerd.sock"
    assert ["/usr/bin/kubeadm", "reset", "--force", "--cri-socket", socket] in machine.commands
    assert ["ip", "link", "delete", "cni0"] in machine.commands
    assert "network link cni0" in removed and "network link flannel.1" not in removed
    for path in ("etc/cni/net.d", "var/lib/cni", "var/lib/kubelet"):
        assert list((machine.root / path).iterdir()) == []
    assert not (machine.root / "etc/kubernetes/kubelet.conf").exists()
    assert not (machine.root / "etc/kubernetes/pki/ca.crt").exists()
    assert Mark(machine.places.state_dir).read() == ("op", "w")
    machine.side.reset("op", "w", [], 10)  # again


def test_what_fstab_mounts_there_is_mounted_again(machine: Machine) -> None:
    machine.side.stop("op", "w", 30, 10)
    (machine.root / "etc/fstab").write_text("/dev/sdb /var/lib/kubelet/pods ext4 defaults 0 0\n")
    machine.side.reset("op", "w", [], 10)
    assert machine.commands[-1] == ["mount", "--", str(machine.root / "var/lib/kubelet/pods")]


def test_join_puts_files_back_and_leaves_no_token(machine: Machine) -> None:
    machine.side.stop("op", "w", 30, 10)
    machine.side.reset("op", "w", [], 10)
    machine.systemd.units["kubelet.service"].enablement = "disabled"
    manifest = _kept("/etc/kubernetes/manifests/lb.yaml", "pod")
    machine.side.join("w", WAY, [_kept("/etc/cni/net.d/10-own.conflist", "net", 0o600), manifest], 10)
    assert (machine.root / "etc/cni/net.d/10-own.conflist").read_text() == "net"
    assert stat.S_IMODE((machine.root / "etc/cni/net.d/10-own.conflist").stat().st_mode) == 0o600
    assert (machine.root / "etc/kubernetes/manifests/lb.yaml").read_text() == "pod"
    assert machine.configuration["nodeRegistration"]["criSocket"] == "unix:///run/containerd/containerd.sock"
    assert machine.configuration["discovery"]["bootstrapToken"]["token"] == WAY["token"]
    assert machine.configuration_mode == 0o600
    assert not any(WAY["token"] in word for command in machine.commands for word in command)
    assert not (machine.root / "run/colocation-rejoin").exists()
    assert not (machine.root / "etc/kubernetes/bootstrap-kubelet.conf").exists()
    assert machine.systemd.units["kubelet.service"].enablement == "enabled"


def test_the_flags_of_the_join_are_found_and_written_again(machine: Machine) -> None:
    assert machine.look().view.kubelet_flags == {}
    text = (
        'KUBELET_KUBEADM_ARGS="--cloud-provider=external --container-runtime-endpoint=unix:///run/proxy.sock '
        "--hostname-override=w --node-ip 10.0.0.1 --pod-infra-container-image=registry.k8s.io/pause:3.9 "
        '--config=/a --kubeconfig=/b --register-node"\n'
    )
    (machine.root / "var/lib/kubelet/kubeadm-flags.env").write_text(text)
    flags = machine.look().view.kubelet_flags
    assert flags == {"cloud-provider": "external", "node-ip": "10.0.0.1", "register-node": "true"}
    machine.side.join("w", WAY, [], 10, flags)
    written = machine.configuration["nodeRegistration"]["kubeletExtraArgs"]
    assert written == [{"name": name, "value": value} for name, value in flags.items()]


def test_a_join_that_fails_tells_kubeadms_words_without_the_token(machine: Machine) -> None:
    machine.joins = False
    (machine.root / "etc/kubernetes/kubelet.conf").unlink()
    with pytest.raises(RejoinRefused) as failed:
        machine.side.join("w", WAY, [], 10)
    assert "the token (token) is not valid" in str(failed.value)
    assert "last words of kubelet.service" in str(failed.value)
    assert WAY["token"] not in str(failed.value)
    assert not (machine.root / "run/colocation-rejoin").exists()


@pytest.mark.parametrize("answers", [True, False])
def test_the_proxy_runs_and_answers_before_the_node_joins(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    machine.systemd.install(PROXY, enablement="enabled")
    proxy = RuntimeDouble()
    proxy.silent = not answers
    monkeypatch.setattr(_rejoin_host, "ContainerRuntime", lambda socket: proxy)
    if answers:
        machine.side.join("w", WAY, [], 10)
        assert machine.systemd.units[PROXY].active == "active"
        assert machine.configuration["nodeRegistration"]["criSocket"] == "unix:///run/proxy.sock"
    else:
        with pytest.raises(RejoinRefused, match="does not answer at /run/proxy.sock"):
            machine.side.join("w", WAY, [], 10)
        assert machine.configuration == {}


@pytest.mark.parametrize(
    ("active", "enablement", "answers", "said"),
    [
        ("active", "enabled", True, ""),
        ("inactive", "disabled", False, ""),  # installed, and off
        ("failed", "enabled", True, "it does not run"),
        ("active", "disabled", False, "it does not answer at /run/proxy.sock"),
    ],
)
def test_a_proxy_that_is_wanted_has_to_answer_before_anything_is_done(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, active: str, enablement: str, answers: bool, said: str
) -> None:
    machine.systemd.install(PROXY, active=active, enablement=enablement)
    proxy = RuntimeDouble()
    proxy.silent = not answers
    monkeypatch.setattr(_rejoin_look, "ContainerRuntime", lambda socket: proxy)
    problems = machine.look().view.problems
    assert [said in one for one in problems] == ([True] if said else [])
    Mark(machine.places.state_dir).announce("op", "w")  # from now on it is stopped
    assert machine.look().view.problems == ()


def test_start_brings_the_agents_back_and_takes_the_mark_away(machine: Machine) -> None:
    Mark(machine.places.state_dir).write("op", "w")
    machine.systemd.units[AGENT].active = "inactive"
    assert machine.side.start([AGENT, "gone.service"], 10) == [AGENT]
    assert not Path(machine.places.state_dir).exists()
    assert machine.side.start([AGENT], 10) == []


def test_one_step_at_a_time(machine: Machine) -> None:
    with (
        machine.side.locked(1),
        pytest.raises(RejoinRefused, match="an earlier run still works"),
        machine.side.locked(1),
    ):
        pass
    with machine.side.locked(1):
        pass


def test_look(machine: Machine) -> None:
    (machine.root / "var/lib/kubelet/seccomp/a").mkdir(parents=True)
    (machine.root / "var/lib/kubelet/seccomp/a/own.json").write_text("{}")
    machine.kubelet_process()
    found = machine.look()
    assert (found.view.node, found.view.machine_id, found.view.mark) == ("w", "abc", "")
    assert found.view.kubelet_running and found.view.kubelet_conf and not found.view.control_plane
    assert (found.view.problems, found.view.agents, found.minted) == ((), (AGENT,), None)
    paths = [one.path for one in found.files]
    assert paths == ["/var/lib/kubelet/seccomp/a/own.json", "/etc/cni/net.d/10-own.conflist"]
    assert "e30=" not in repr(found)
    (machine.root / "etc/kubernetes/manifests").mkdir()
    (machine.root / "etc/kubernetes/manifests/kube-apiserver.yaml").write_text("pod")
    assert machine.look().view.control_plane


def test_look_says_all_that_would_leave_no_way_back(machine: Machine) -> None:
    (machine.root / "usr/bin/kubeadm").unlink()
    (machine.root / "usr/lib/systemd/system/kubelet.service").unlink()
    (machine.root / "etc/cni/net.d/large").write_bytes(b"x" * (1 << 20))
    machine.runtime.silent = True
    said = " ".join(machine.look().view.problems)
    for part in ("kubeadm is not installed", "no kubelet.service", "containerd does not answer", "large has 1048576"):
        assert part in said


def test_a_node_that_kubeadm_did_not_join_is_none_that_it_joins_again(machine: Machine) -> None:
    unit = machine.root / "etc/systemd/system/kubelet.service"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/kubelet --kubeconfig=/var/lib/kubelet/kubeconfig\n")
    (problem,) = machine.look().view.problems
    assert problem.startswith("kubeadm did not join it") and "/var/lib/kubelet/kubeconfig" in problem
    unit.unlink()
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/usr/bin/own"}}
    (machine.root / "etc/kubernetes/kubelet.conf").write_text(made.kubeconfig(user))
    (problem,) = machine.look().view.problems
    assert "/etc/kubernetes/kubelet.conf has a program in place of a client certificate" in problem
    socks = made.kubeconfig({"token": "t"}, **{"proxy-url": "socks5://10.0.0.9:1080"})
    (machine.root / "etc/kubernetes/kubelet.conf").write_text(socks)
    (problem,) = machine.look().view.problems
    assert "can't be told" in problem and "socks5" in problem
    (machine.root / "etc/kubernetes/kubelet.conf").unlink()  # lost: it may have been kubeadm's
    assert machine.look().view.problems == ()


def test_the_marks_name_counts_when_the_certificate_is_gone(machine: Machine) -> None:
    machine.places = Places("", "", "", (), (), machine.places.state_dir)
    Mark(machine.places.state_dir).write("op", "name-in-the-cluster")
    found = machine.look()
    assert (found.view.node, found.view.mark) == ("name-in-the-cluster", "op")
    (Path(machine.places.state_dir) / "rejoin.json").write_text("[nonsense")
    assert machine.look().view.mark == ""


def test_kept_files_are_files(tmp_path: Path) -> None:
    (tmp_path / "etc/dir").mkdir(parents=True)
    (tmp_path / "etc/link").symlink_to("/etc/shadow")
    (tmp_path / "etc/file").write_text("x")
    assert [one.path for one in kept_files(str(tmp_path), ["/etc/*", "/etc/f*", "/nothing/**"])] == ["/etc/file"]
