# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import Kernel, KernelError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel_change import KernelWish, bring
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger

WISH = KernelWish(
    "k8s",
    ("overlay", "br_netfilter"),
    {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"},
)


class FakeKernel:
    """A tree with a kernel in which overlay is built in and br_netfilter brings its sysctl along."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loads: list[str] = []
        self.put("proc/modules", "")
        self.put("proc/sys/net/ipv4/ip_forward", "0\n")
        self.put("lib/modules/6.1/modules.builtin", "kernel/fs/overlayfs/overlay.ko\n")
        self.put("lib/modules/6.1/modules.dep", "kernel/net/br_netfilter.ko.xz:\n")

    def put(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, command: list[str]) -> tuple[int, str, str]:
        assert command[:2] == ["modprobe", "--"]
        self.loads.append(command[2])
        self.put("proc/modules", f"{command[2]} 1 0 - Live 0x0\n")
        self.put("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n")
        return 0, "", ""

    def kernel(self) -> Kernel:
        return Kernel(self.run, str(self.root), "6.1")


@pytest.fixture
def fake(tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path / "root")


def _ledger(fake: FakeKernel, check_mode: bool = False) -> Ledger:
    return Ledger(str(fake.root / "state"), "role", check_mode)


def test_now_and_after_a_boot(fake: FakeKernel) -> None:
    change = bring(fake.kernel(), _ledger(fake), WISH)
    assert (change.changed, change.modules, fake.loads) == (True, ("br_netfilter",), ["br_netfilter"])
    assert change.sysctls == {"net.ipv4.ip_forward": ("0", "1")}
    assert (fake.root / "proc/sys/net/ipv4/ip_forward").read_text() == "1\n"
    assert (fake.root / "etc/modules-load.d/k8s.conf").read_text().splitlines()[1:] == ["overlay", "br_netfilter"]
    assert (fake.root / "etc/sysctl.d/99-k8s.conf").read_text().splitlines()[1:] == [
        "net.ipv4.ip_forward = 1",
        "net.bridge.bridge-nf-call-iptables = 1",
    ]
    noted = {(entry.kind, entry.name): entry.before for entry in _ledger(fake).entries()}
    assert noted["sysctl", "net.ipv4.ip_forward"] == "0"
    assert noted["module", "br_netfilter"] == {"loaded": False}
    assert ("module", "overlay") not in noted


def test_a_second_run_changes_nothing(fake: FakeKernel) -> None:
    bring(fake.kernel(), _ledger(fake), WISH)
    again = bring(fake.kernel(), _ledger(fake), WISH)
    assert (again.changed, again.diff(), fake.loads) == (False, [], ["br_netfilter"])


def test_check_mode_changes_nothing_and_takes_an_unknown_sysctl_for_a_change(fake: FakeKernel) -> None:
    before = sorted(fake.root.rglob("*"))
    change = bring(fake.kernel(), _ledger(fake, True), WISH)
    assert (sorted(fake.root.rglob("*")), fake.loads) == (before, [])
    assert change.sysctls["net.bridge.bridge-nf-call-iptables"] == (None, "1")
    assert change.modules == ("br_netfilter",)
    assert [file.path for file in change.files if file.changed] == [
        str(fake.root / "etc/modules-load.d/k8s.conf"),
        str(fake.root / "etc/sysctl.d/99-k8s.conf"),
    ]
    diff = change.diff()[0]
    assert "net.bridge.bridge-nf-call-iptables = (unknown yet)\n" in diff["before"]
    assert "module br_netfilter\n" in diff["after"]


def test_a_sysctl_that_stays_unknown_fails_with_advice(fake: FakeKernel) -> None:
    wish = KernelWish("k8s", (), {"net.bridge.bridge-nf-call-iptables": "1"})
    with pytest.raises(KernelError, match="net.bridge.\\* needs br_netfilter"):
        bring(fake.kernel(), _ledger(fake), wish)


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_module_that_the_kernel_does_not_have_fails_before_any_change(fake: FakeKernel, check_mode: bool) -> None:
    with pytest.raises(KernelError, match="6.1 has no module riddle. .*install the package"):
        bring(fake.kernel(), _ledger(fake, check_mode), KernelWish("k8s", ("br_netfilter", "riddle")))
    assert fake.loads == []


@pytest.mark.parametrize(
    ("name", "text", "warned"),
    [
        ("etc/sysctl.conf", "net.ipv4.ip_forward = 0\n", True),
        ("etc/sysctl.d/99-zz.conf", "net/ipv4/ip_forward=0\n", True),
        ("usr/lib/sysctl.d/99-zz.conf", "net.ipv4.ip_forward=0\n", True),
        ("etc/sysctl.d/99-zz.conf", "net.ipv4.ip_forward=1\n", False),
        ("etc/sysctl.d/10-a.conf", "net.ipv4.ip_forward=0\n", False),
        ("etc/sysctl.d/99-zz.conf", "# net.ipv4.ip_forward=0\n", False),
    ],
)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_later_file_that_wins_at_boot_is_named(
    fake: FakeKernel, name: str, text: str, warned: bool, check_mode: bool
) -> None:
    path = fake.put(name, text)
    change = bring(fake.kernel(), _ledger(fake, check_mode), WISH)
    assert bool(change.warnings) == warned
    if warned:
        assert str(path) in change.warnings[0]
        assert "net.ipv4.ip_forward = 0" in change.warnings[0]
    assert path.read_text() == text


def test_only_what_is_wished_gets_a_file(fake: FakeKernel) -> None:
    bring(fake.kernel(), _ledger(fake), KernelWish("k8s", ("overlay",)))
    assert not (fake.root / "etc/sysctl.d").exists()
