# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import (
    Kernel,
    KernelError,
    Setting,
    module_name,
    module_names,
    normal,
    parse_sysctls,
    sysctl_file,
    sysctl_path,
    sysctl_value,
)


def _no_run(command: list[str]) -> tuple[int, str, str]:
    raise AssertionError(f"nothing should be run: {command}")


def _put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _kernel(root: Path) -> Kernel:
    return Kernel(_no_run, str(root), "6.1")


@pytest.mark.parametrize(
    "text", ["br_netfilter", "br-netfilter", "kernel/net/bridge/br_netfilter.ko", "kernel/net/br_netfilter.ko.xz"]
)
def test_modules_have_one_name(text: str) -> None:
    assert module_name(text) == "br_netfilter"


def test_the_three_listings_are_read() -> None:
    assert module_names("overlay 1 2 - Live 0x0\nnf_nat 1 0\n") == {"overlay", "nf_nat"}
    assert module_names("kernel/fs/overlayfs/overlay.ko\n") == {"overlay"}
    assert module_names("kernel/a/nf-nat.ko.zst: kernel/b/c.ko\n\n") == {"nf_nat"}


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/ip_forward", "net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"),
        ("net/ipv4/conf/eth0.100/forwarding", "net/ipv4/conf/eth0.100/forwarding"),
    ],
)
def test_keys_in_both_spellings(key: str, path: str) -> None:
    assert sysctl_path(key) == path


def test_values() -> None:
    assert [sysctl_value(value) for value in (True, False, 1, "1", "32768\t60999")] == [
        "1",
        "0",
        "1",
        "1",
        "32768 60999",
    ]
    assert normal(" a\tb \n") == "a b"


def test_a_sysctl_file_is_read_as_the_boot_does() -> None:
    text = """
    # comment
    ; comment
    net.ipv4.ip_forward=0
    -kernel.panic = 10
    net.ipv4.conf.*.rp_filter = 1
    -net.ipv4.conf.all.rp_filter
    net/ipv4/tcp_rmem = 4096\t131072   6291456
    nonsense
    """
    assert parse_sysctls("f", text) == [
        Setting("f", "net/ipv4/ip_forward", "0"),
        Setting("f", "kernel/panic", "10"),
        Setting("f", "net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ]


KEYS = st.from_regex(r"[a-z]{1,8}(\.[a-z_]{1,8}){1,3}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9]{1,5}( [a-z0-9]{1,5}){0,2}", fullmatch=True)


@given(st.dictionaries(KEYS, VALUES))
def test_what_we_write_is_read_back(sysctls: dict[str, str]) -> None:
    found = parse_sysctls("f", sysctl_file("name", sysctls).decode())
    assert [(setting.path, setting.value) for setting in found] == [
        (sysctl_path(key), value) for key, value in sysctls.items()
    ]


@given(st.text())
def test_any_text_is_read_without_failing(text: str) -> None:
    for setting in parse_sysctls("f", text):
        assert setting.value == normal(setting.value)


def test_built_in_modules_count_as_loaded(tmp_path: Path) -> None:
    _put(tmp_path, "proc/modules", "nf_nat 1 0 - Live 0x0\n")
    _put(tmp_path, "lib/modules/6.1/modules.builtin", "kernel/fs/overlayfs/overlay.ko\n")
    assert _kernel(tmp_path).loaded() == {"nf_nat", "overlay"}


def test_whether_a_module_can_be_loaded(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path)
    assert kernel.can_load("riddle")  # nothing is known: trying will tell
    assert "reboot" in kernel.advice("riddle")
    _put(tmp_path, "lib/modules/6.1/modules.dep", "kernel/net/br_netfilter.ko: kernel/net/bridge.ko\n")
    _put(tmp_path, "lib/modules/6.1/modules.alias", "alias nickname br_netfilter\n")
    assert [kernel.can_load(name) for name in ("br-netfilter", "nickname", "riddle")] == [True, True, False]
    assert "install the package" in kernel.advice("riddle")


def test_modprobe_refuses(tmp_path: Path) -> None:
    kernel = Kernel(lambda command: (1, "", "modprobe: FATAL: Module x not found\n"), str(tmp_path), "6.1")
    with pytest.raises(KernelError, match="FATAL: Module x not found"):
        kernel.load("x")


def test_values_are_read_written_and_seen_to_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _put(tmp_path, "proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    kernel = _kernel(tmp_path)
    assert kernel.get("net.ipv4.ip_local_port_range") == "32768 60999"
    assert kernel.get("net.bridge.bridge-nf-call-iptables") is None
    kernel.set("net.ipv4.ip_local_port_range", "1 2")
    assert path.read_text() == "1 2\n"
    with pytest.raises(KernelError, match="was refused: No such file"):
        kernel.set("net.none", "1")
    monkeypatch.setattr(kernel, "get", lambda key: "0x1")
    with pytest.raises(KernelError, match="the kernel says '0x1'"):
        kernel.set("net.ipv4.ip_local_port_range", "1")


def test_files_are_read_in_the_order_of_the_boot(tmp_path: Path) -> None:
    _put(tmp_path, "usr/lib/sysctl.d/50-default.conf", "a.b = usr\n")
    _put(tmp_path, "etc/sysctl.d/50-default.conf", "a.b = etc\n")  # hides the one in /usr
    _put(tmp_path, "run/sysctl.d/60-run.conf", "a.b = run\n")
    _put(tmp_path, "etc/sysctl.d/99-sysctl.conf", "").unlink()
    (tmp_path / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    _put(tmp_path, "etc/sysctl.conf", "a.b = last\n")
    _put(tmp_path, "etc/sysctl.d/70-not.conf.bak", "a.b = never\n")
    assert [setting.value for setting in _kernel(tmp_path).configured()] == ["etc", "run", "last"]


def test_a_look_ahead_replaces_files(tmp_path: Path) -> None:
    first = _put(tmp_path, "etc/sysctl.d/50-a.conf", "a.b = 1\n")
    second = _put(tmp_path, "etc/sysctl.d/60-b.conf", "a.b = 2\n")
    ahead = _kernel(tmp_path).configured({str(second): None, str(first): b"a.b = 3\n"})
    assert [setting.value for setting in ahead] == ["3"]
