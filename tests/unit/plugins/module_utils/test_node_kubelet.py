# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import (
    last_line,
    parse_cri_disabled,
    parse_systemd_cgroup,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    find_process,
    parse_cgroup,
    parse_config,
    parse_environment,
    parse_flags,
    parse_kubeconfig,
    parse_version,
    read_cluster,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Kubernetes v1.36.3\n", "1.36.3"),
        ("Kubernetes v1.37.0-rc.1\n", "1.37.0-rc.1"),
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6\n", "1.7.24"),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4\n", "2.1.4"),
        ("no numbers\n", ""),
    ],
)
def test_versions(text: str, version: str) -> None:
    assert parse_version(text) == version


def test_flags_in_their_three_forms() -> None:
    flags = parse_flags(["kubelet", "--a=1", "--b", "2", "--c", "--a=3=4", "-v", "--d=", ""])
    assert flags == {"a": "3=4", "b": "2", "c": "true", "d": ""}


names = st.from_regex(r"[a-z][a-z-]{0,9}", fullmatch=True)
values = st.from_regex(r"[a-z0-9:/.]{1,9}", fullmatch=True)


@given(st.lists(st.tuples(names, values, st.booleans())))
def test_the_last_flag_of_a_name_wins(flags: list[tuple[str, str, bool]]) -> None:
    arguments = [
        part for name, value, joined in flags for part in ([f"--{name}={value}"] if joined else [f"--{name}", value])
    ]
    assert parse_flags(arguments) == {name: value for name, value, _joined in flags}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('KUBELET_KUBEADM_ARGS="--a=1 --b=2"\n', ["--a=1", "--b=2"]),
        ("KUBELET_EXTRA_ARGS=--a=1\n", ["--a=1"]),
        ("# KUBELET_EXTRA_ARGS=--a=1\nOTHER=--b=2\n", []),
        ('KUBELET_EXTRA_ARGS="--a=1 --b\n', ["--a=1", "--b"]),
        ('KUBELET_KUBEADM_ARGS=""\n', []),
    ],
)
def test_environment_files(text: str, words: list[str]) -> None:
    assert parse_environment(text) == words


def test_only_the_top_level_of_a_config_is_read() -> None:
    text = "a: 1\nb:\n  a: 2\nc: 'x # y' # z\n\"d\": true # e\nf: unix:///run/x.sock\n- g: 1\n"
    assert parse_config(text) == {"a": "1", "c": "x # y", "d": "true", "f": "unix:///run/x.sock"}


def test_a_config_may_be_json() -> None:
    text = ' {"failSwapOn": false, "cgroupDriver": "cgroupfs", "a": {"b": 1}, "c": null, "d": [1]}'
    assert parse_config(text) == {"failSwapOn": "false", "cgroupDriver": "cgroupfs", "c": "null"}


@pytest.mark.parametrize(
    "text",
    [
        "clusters:\n- cluster:\n    certificate-authority-data: QUJD\n    server: https://[fd00::1]:6443\n",
        'clusters: [{cluster: {server: "https://[fd00::1]:6443", certificate-authority-data: "QUJD"}}]\n',
        '{"clusters":[{"cluster":{"certificate-authority-data":"QUJD","server":"https://[fd00::1]:6443"}}]}',
    ],
)
def test_kubeconfigs_in_yaml_and_json(text: str) -> None:
    assert parse_kubeconfig(text) == ("https://[fd00::1]:6443", "QUJD", "")


def test_a_ca_file_is_not_taken_for_ca_data() -> None:
    assert parse_kubeconfig("    certificate-authority: /etc/ca.crt\n    server: https://a\n") == (
        "https://a",
        "",
        "/etc/ca.crt",
    )


def test_the_bootstrap_kubeconfig_serves_where_the_other_names_no_server(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("kind: Config\n")
    (tmp_path / "two").write_text("server: https://b\ncertificate-authority: /ca\n")
    (tmp_path / "ca").write_text("PEM")
    assert read_cluster(str(tmp_path), ("/none", "/one", "/two")) == ("https://b", "PEM")
    (tmp_path / "one").write_text(
        f"server: https://a\ncertificate-authority-data: {base64.b64encode(b'CA').decode()}\n"
    )
    assert read_cluster(str(tmp_path), ("/none", "/one", "/two")) == ("https://a", "CA")
    with (tmp_path / "one").open("a") as file:
        file.write("    tls-server-name: kubernetes\n")  # by the address its certificate would be refused
    assert read_cluster(str(tmp_path), ("/one",)) == ("https://a", "")


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("0::/system.slice/kubelet.service\n", "/system.slice/kubelet.service"),
        ("3:cpu,cpuacct:/x\n1:name=systemd:/system.slice/kubelet.service\n0::/y\n", "/system.slice/kubelet.service"),
        ("3:cpu:/x\n", ""),
        ("", ""),
    ],
)
def test_control_group_of_a_process(text: str, group: str) -> None:
    assert parse_cgroup(text) == group


def test_the_oldest_kubelet_is_the_nodes(tmp_path: Path) -> None:
    for pid, name in ((1, "systemd"), (20, "kubelet"), (100, "kubelet"), (9, "kubelet-wrapper"), (8, "kubelet")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
        (tmp_path / f"proc/{pid}/cmdline").write_text(f"{name}\0--pid={pid}\0")
    (tmp_path / "proc/self").mkdir()
    of_a_pod = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope/kubelet.slice/kubelet.service\n"
    (tmp_path / "proc/8/cgroup").write_text(of_a_pod)
    process = find_process(str(tmp_path), "kubelet")
    assert process is not None
    assert (process.pid, process.executable) == (20, "")
    assert parse_flags(process.arguments) == {"pid": "20"}
    assert find_process(str(tmp_path), "containerd") is None


TABLE = "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (f"[{TABLE}.runc.options]\n  SystemdCgroup = true\n", True),
        (f"[{TABLE}.runc.options]\n  BinaryName = ''\n  SystemdCgroup = false\n", False),
        (f"[{TABLE}.kata.options]\nSystemdCgroup = true\n[{TABLE}.runc.options]\nSystemdCgroup = false\n", False),
        ('[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."runc".options]\nSystemdCgroup = true\n', True),
        ("[plugins.'x']\nSystemdCgroup = true\n", None),
        ("", None),
    ],
)
def test_the_cgroup_driver_is_runcs(dump: str, said: bool | None) -> None:
    assert parse_systemd_cgroup(dump) is said


@pytest.mark.parametrize(
    ("dump", "disabled"),
    [
        ('disabled_plugins = ["cri"]\n', True),
        ("disabled_plugins = ['io.containerd.grpc.v1.cri']\n", True),
        ('disabled_plugins = [\n  "aufs",\n  "io.containerd.cri.v1.runtime"\n]\n', True),
        ("disabled_plugins = []\n", False),
        ('disabled_plugins = ["aufs"]\nimports = ["/etc/cri.toml"]\n', False),
        ("version = 2\n", False),
    ],
)
def test_disabled_cri(dump: str, disabled: bool) -> None:
    assert parse_cri_disabled(dump) is disabled


def test_the_reason_is_the_last_line() -> None:
    assert last_line("warning\ncontainerd: bad file\n\n") == "containerd: bad file"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_version(text)
    parse_flags(parse_environment(text))
    parse_config(text)
    parse_kubeconfig(text)
    parse_cgroup(text)
    parse_systemd_cgroup(text)
    parse_cri_disabled(text)
