# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._hazard import (
    containerd_dump_problem,
    file_hazard,
    imports,
    is_systemd_file,
    unit_of,
)

ESSENTIAL = ("containerd.service", "kubelet.service")
ROOT_LINE = b"UUID=1 / ext4 defaults 0 1\n"


@pytest.mark.parametrize(
    ("before", "now", "dangerous"),
    [
        (ROOT_LINE + b"/swapfile none swap sw 0 0\n", ROOT_LINE + b"# /swapfile none swap sw 0 0\n", True),
        (ROOT_LINE + b"/swapfile none swap sw,noauto 0 0\n", ROOT_LINE, False),
        (ROOT_LINE + b"/swapfile  none\tswap sw 0 0\n", ROOT_LINE + b"/swapfile none swap sw 0 0\n", False),
        (ROOT_LINE, ROOT_LINE + b"#x\n", False),
        (ROOT_LINE + b"#/swapfile none swap sw 0 0\n", ROOT_LINE, False),
    ],
)
def test_an_fstab_that_turns_swap_on(before: bytes, now: bytes, dangerous: bool) -> None:
    assert bool(file_hazard("/etc/fstab", before, "", now, ESSENTIAL)) == dangerous


@pytest.mark.parametrize(
    "path",
    [
        "/etc/systemd/zram-generator.conf",
        "/etc/systemd/zram-generator.conf.d/50-x.conf",
        "/etc/default/zramswap",
        "/etc/systemd/system/dev-vda3.swap",
    ],
)
def test_files_that_bring_swap(path: str) -> None:
    assert "swap" in file_hazard(path, b"x", "", None, ESSENTIAL)
    assert "swap" in file_hazard(path, None, "", b"", ESSENTIAL)


def test_a_mask_over_an_essential_unit_is_dangerous_and_a_drop_in_or_another_unit_is_not() -> None:
    unit = "/etc/systemd/system/containerd.service"
    assert "masked" in file_hazard(unit, None, "/dev/null", b"x", ESSENTIAL)
    assert "masked" in file_hazard(unit, b"", "", b"x", ESSENTIAL)
    assert file_hazard(unit, b"[Unit]\n", "", None, ESSENTIAL) == ""
    assert file_hazard(unit, None, "/opt/containerd.service", b"x", ESSENTIAL) == ""
    assert file_hazard(unit + ".d/50-x.conf", None, "/dev/null", b"x", ESSENTIAL) == ""
    assert file_hazard("/etc/systemd/system/other.service", None, "/dev/null", b"x", ESSENTIAL) == ""


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/etc/systemd/system/kubelet.service", "kubelet.service"),
        ("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "kubelet.service"),
        ("/usr/lib/systemd/system/a@b.service", "a@b.service"),
        ("/etc/containerd/config.toml", "containerd.service"),
        ("/etc/containerd/conf.d/50-x.toml", "containerd.service"),
        ("/var/lib/kubelet/config.yaml", "kubelet.service"),
        ("/etc/default/kubelet", "kubelet.service"),
        ("/etc/fstab", ""),
        ("/etc/systemd/system/multi-user.target.wants/a.service", ""),
    ],
)
def test_the_unit_that_a_file_configures(path: str, unit: str) -> None:
    assert unit_of(path) == unit


def test_files_that_systemd_reads() -> None:
    assert is_systemd_file("/etc/systemd/system/a.service")
    assert is_systemd_file("/etc/fstab")
    assert not is_systemd_file("/etc/containerd/config.toml")


@pytest.mark.parametrize(
    ("dump", "dangerous"),
    [
        ('disabled_plugins = ["cri"]\n', True),
        ("disabled_plugins = ['io.containerd.cri.v1.runtime']\n", True),
        ('disabled_plugins = [\n  "a",\n  "io.containerd.grpc.v1.cri",\n]\n', True),
        ("disabled_plugins = []\n[plugins]\n", False),
        ('disabled_plugins = ["io.containerd.snapshotter.v1.zfs"]\n', False),
        ("version = 2\n", False),
    ],
)
def test_a_containerd_without_cri(dump: str, dangerous: bool) -> None:
    assert bool(containerd_dump_problem(dump)) == dangerous


def test_imports_are_found_outside_of_comments() -> None:
    path = "/etc/containerd/conf.d/50-colocation.toml"
    assert imports(b'imports = ["/etc/containerd/conf.d/50-colocation.toml"]\n', path)
    assert not imports(b'# imports = ["/etc/containerd/conf.d/50-colocation.toml"]\n', path)
    assert not imports(b'imports = ["/etc/containerd/conf.d/*.toml"]\n', path)
