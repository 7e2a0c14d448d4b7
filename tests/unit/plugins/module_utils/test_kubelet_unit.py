# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What kubelet.service would start: units as kubeadm's package, EKS and AKS have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_unit import (
    unit_arguments,
    unit_environment,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    environment_of,
    find_process,
    kubelets_kubeconfig,
    parse_flags,
)

PLAIN = "[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n"
KUBEADM = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/b.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
# Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/nowhere"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
EKS = """\
[Service]
EnvironmentFile=/etc/eks/kubelet/environment
ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS
"""
AKS = """\
[Service]
EnvironmentFile=/etc/default/kubelet
ExecStart=/opt/bin/kubelet \\
  --node-labels="${KUBELET_NODE_LABELS}" \\
  --kubeconfig /var/lib/kubelet/kubeconfig $KUBELET_FLAGS
"""
LIB, ETC = "usr/lib/systemd/system", "etc/systemd/system"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    return tmp_path


def flags(root: Path) -> dict[str, str]:
    return parse_flags(unit_arguments(str(root)))


def test_kubeadms_unit_and_what_an_administrator_laid_over_it(root: Path) -> None:
    write(root, f"{LIB}/kubelet.service", PLAIN)
    write(root, f"{LIB}/kubelet.service.d/10-kubeadm.conf", KUBEADM)
    write(root, "var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--v=2 --a=b"\n')
    expected = {"bootstrap-kubeconfig": "/b.conf", "kubeconfig": "/etc/kubernetes/kubelet.conf", "v": "2", "a": "b"}
    assert flags(root) == expected
    own = '[Service]\nEnvironment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/var/lib/kubelet/kubeconfig"\n'
    write(root, f"{ETC}/kubelet.service.d/20-own.conf", own)
    assert flags(root) == {"kubeconfig": "/var/lib/kubelet/kubeconfig", "v": "2", "a": "b"}
    assert kubelets_kubeconfig(str(root)) == "/var/lib/kubelet/kubeconfig"
    write(root, f"{ETC}/kubelet.service.d/10-kubeadm.conf", "")  # in place of the package's
    assert flags(root) == {}


def test_the_units_of_clouds(root: Path) -> None:
    write(root, f"{ETC}/kubelet.service", EKS)
    environment = 'NODEADM_KUBELET_ARGS="--kubeconfig=/var/lib/kubelet/kubeconfig --hostname-override=ip-10-0-1-17"\n'
    write(root, "etc/eks/kubelet/environment", environment)
    assert flags(root) == {"kubeconfig": "/var/lib/kubelet/kubeconfig", "hostname-override": "ip-10-0-1-17"}
    write(root, f"{ETC}/kubelet.service", AKS)
    write(root, "etc/default/kubelet", "KUBELET_FLAGS=--cert-dir=/pki --v=1\nKUBELET_NODE_LABELS=a=b,c=d\n")
    assert flags(root) == {
        "node-labels": "a=b,c=d", "kubeconfig": "/var/lib/kubelet/kubeconfig", "cert-dir": "/pki", "v": "1",
    }  # fmt: skip


def test_a_shell_that_starts_it_and_a_pattern_of_files(root: Path) -> None:
    unit = """[Service]
EnvironmentFile=/etc/kubelet.d/*.env
ExecStart=/bin/sh -c 'exec /usr/bin/kubelet $FLAGS --v=3'
"""
    write(root, f"{ETC}/kubelet.service", unit)
    write(root, "etc/kubelet.d/1.env", "FLAGS=--kubeconfig=/nowhere\nREGION=r\n")
    write(root, "etc/kubelet.d/2.env", 'FLAGS="--kubeconfig=/x --hostname-override=n"\n')
    assert flags(root) == {"kubeconfig": "/x", "hostname-override": "n", "v": "3"}
    assert unit_environment(str(root))["REGION"] == "r"


def test_a_program_for_credentials_finds_what_the_kubelet_would(root: Path) -> None:
    write(root, f"{ETC}/kubelet.service", '[Service]\nEnvironment="REGION=r 1" HTTPS_PROXY=http://p:3128\n')
    stopped = environment_of(str(root), None)
    assert (stopped["REGION"], stopped["HTTPS_PROXY"]) == ("r 1", "http://p:3128")
    assert "/usr/local/bin" in stopped["PATH"].split(":")
    write(root, "proc/42/comm", "kubelet\n")
    write(root, "proc/42/cmdline", "/usr/bin/kubelet\0")
    write(root, "proc/42/environ", "PATH=/own\0REGION=s\0")
    assert environment_of(str(root), find_process(str(root), "kubelet")) == {"PATH": "/own", "REGION": "s"}


def test_a_mask_covers_a_unit_and_says_nothing(root: Path) -> None:
    write(root, f"{LIB}/kubelet.service", AKS)
    write(root, f"{ETC}/kubelet.service", "")
    assert flags(root)["kubeconfig"] == "/var/lib/kubelet/kubeconfig"


def test_a_running_kubelet_is_believed_over_its_unit(root: Path) -> None:
    write(root, f"{LIB}/kubelet.service", AKS)
    write(root, "proc/42/comm", "kubelet\n")
    write(root, "proc/42/cmdline", "/usr/bin/kubelet\0--kubeconfig=/run/k.conf\0")
    assert kubelets_kubeconfig(str(root)) == "/run/k.conf"
    write(root, "proc/42/cmdline", "")  # it just ended
    assert kubelets_kubeconfig(str(root)) == "/var/lib/kubelet/kubeconfig"


def test_without_a_unit_it_is_kubeadms(root: Path) -> None:
    assert kubelets_kubeconfig(str(root)) == "/etc/kubernetes/kubelet.conf"
