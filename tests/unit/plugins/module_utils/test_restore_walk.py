# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The walk, over trees in temporary directories with a double of systemd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import bring
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.node_double import (
    Node,
    change_much,
    do_much,
    names,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def test_everything_goes_back_and_nothing_of_ours_stays(node: Node) -> None:
    change_much(node)
    before = node.tree()
    do_much(node)
    assert node.tree() != before
    report = node.restore()
    assert node.tree() == before
    assert (report.kept, report.refused, report.problems) == ([], [], [])
    unit = node.double.units["other.service"]
    assert (unit.active, unit.enablement) == ("active", "enabled")
    assert (node.root / "proc/sys/net/ipv4/ip_forward").read_text() == "0\n"
    assert not (node.root / "var/lib/colocation").exists()


def test_check_mode_names_the_same_and_changes_nothing(node: Node) -> None:
    change_much(node)
    do_much(node)
    before, files = node.tree(), sorted(os.listdir(node.ledger.directory))
    calls = len(node.double.changes())
    told = node.restore(check_mode=True)
    assert (node.tree(), sorted(os.listdir(node.ledger.directory))) == (before, files)
    assert len(node.double.changes()) == calls
    done = node.restore()
    assert told == done
    assert len(done.restored) > 6


def test_a_second_run_changes_nothing(node: Node) -> None:
    change_much(node)
    do_much(node)
    node.path("etc/changed", b"edited since\n")
    first = node.restore()
    after, calls = node.tree(), len(node.double.changes())
    second = node.restore()
    assert (second.restored, second.diff, second.notify_units) == ([], [], [])
    assert second.kept == first.kept
    assert names(second.kept) == [str(node.root / "etc/changed")]
    assert (node.tree(), len(node.double.changes())) == (after, calls)


def test_what_is_kept_names_the_copy_of_its_original(node: Node) -> None:
    path = node.path("etc/f", b"original")
    node.ledger.write_file(str(path), b"ours")
    path.write_bytes(b"theirs")
    (line,) = node.restore().kept
    copy = line["reason"].rsplit(" ", 1)[-1]
    assert Path(copy).read_bytes() == b"original"


def test_two_owners_are_undone_newest_first_or_the_lower_waits(node: Node) -> None:
    path = node.path("etc/f", b"original")
    node.ledger.write_file(str(path), b"by role")
    upper = Ledger(str(node.root / "var/lib/colocation"), "upper")
    upper.write_file(str(path), b"by upper")
    assert names(node.restore(owners=("role",)).kept) == [str(path)]
    told = node.restore(check_mode=True)
    done = node.restore()
    assert told == done
    assert [line["owner"] for line in done.restored] == ["upper", "role"]
    assert path.read_bytes() == b"original"


def test_damaged_entries_are_reported_and_the_rest_goes_on(node: Node) -> None:
    good = node.path("etc/good", b"original")
    bad = node.path("etc/bad", b"original")
    lost = node.path("etc/lost", b"original")
    for path in (good, bad, lost):
        node.ledger.write_file(str(path), b"ours")
    for name in os.listdir(node.ledger.directory):
        place = Path(node.ledger.directory, name)
        if name.startswith("file.bad") and name.endswith(".json"):
            place.write_bytes(place.read_bytes()[:40])
        if name.startswith("file.lost") and name.endswith(".original"):
            place.write_bytes(b"or")
    node.ledger.note("sysctl", "a.b", 5, "6")
    node.ledger.note("riddle", "x", 1, 2)
    report = node.restore(force=True)
    assert (good.read_bytes(), bad.read_bytes(), lost.read_bytes()) == (b"original", b"ours", b"ours")
    assert len(report.problems) == 4
    assert any("file.bad" in problem for problem in report.problems)
    assert any("is not what was kept" in problem for problem in report.problems)
    assert any("riddle" in problem for problem in report.problems)


def test_a_unit_that_does_not_come_up_is_a_problem_and_its_entry_stays(node: Node) -> None:
    node.double.install("other.service", active="active", enablement="enabled")
    bring(node.systemd, node.ledger, "other.service", UnitWish("stopped"))
    node.double.units["other.service"].comes_up = False
    report = node.restore()
    assert "last words of other.service" in report.problems[0]
    node.double.units["other.service"].comes_up = True
    assert names(node.restore().restored) == ["other.service"]


def test_our_own_unit_is_stopped_before_its_file_goes(node: Node) -> None:
    node.double.install("ours.service")
    (node.root / "usr/lib/systemd/system/ours.service").unlink()
    node.ledger.write_file(str(node.root / "etc/systemd/system/ours.service"), b"[Service]\n")
    bring(node.systemd, node.ledger, "ours.service", UnitWish("started", True))
    node.double.calls.clear()
    report = node.restore()
    assert node.double.changes() == ["disable ours.service", "stop ours.service", "daemon-reload"]
    assert not (node.root / "etc/systemd/system/ours.service").exists()
    assert report.notify_units == []


def test_a_masked_containerd_stays_up_until_forced(node: Node) -> None:
    node.double.install("containerd.service", enablement="disabled")
    node.path("etc/systemd/system/containerd.service").symlink_to("/dev/null")
    bring(node.systemd, node.ledger, "containerd", UnitWish("started", True, False))
    refused = node.restore()
    assert (names(refused.refused), refused.restored) == (["containerd.service"], [])
    assert node.double.units["containerd.service"].active == "active"
    assert node.restore() == refused
    forced = node.restore(force=True)
    assert (names(forced.restored), forced.refused) == (["containerd.service"], [])
    assert os.readlink(node.root / "etc/systemd/system/containerd.service") == "/dev/null"
    assert node.double.units["containerd.service"].active == "inactive"


def test_swap_comes_back_only_when_forced_and_in_order(node: Node) -> None:
    fstab = node.path("etc/fstab", b"/swapfile none swap sw 0 0\n")
    node.path("swapfile", b"")
    node.path("proc/swaps", b"Filename Type Size Used Priority\n")
    node.answers["swapon"] = (0, "", "")
    node.ledger.note("swap", "/swapfile", {"active": True, "priority": 5}, {"active": False})
    node.ledger.write_file(str(fstab), b"# /swapfile none swap sw 0 0\n")
    refused = node.restore()
    assert sorted(names(refused.refused)) == ["/swapfile", str(fstab)]
    assert refused.restored == []
    forced = node.restore(force=True)
    assert names(forced.restored) == [str(fstab), "/swapfile"]
    assert node.double.changes() == ["daemon-reload", "swapon -p 5 -- /swapfile"]
    assert fstab.read_bytes() == b"/swapfile none swap sw 0 0\n"


def test_compressed_swap_comes_back_through_its_unit(node: Node) -> None:
    node.path("dev/zram0", b"")
    node.path("proc/swaps", b"Filename Type Size Used Priority\n")
    node.double.install("dev-zram0.swap", enablement="generated")
    node.ledger.note("swap", "/dev/zram0", {"active": True, "priority": 100}, {"active": False})
    report = node.restore(force=True)
    assert (names(report.restored), report.problems) == (["/dev/zram0"], [])
    assert "start dev-zram0.swap" in node.double.changes()


def test_a_unit_that_goes_back_to_rest_is_not_to_be_restarted(node: Node) -> None:
    node.double.install("containerd.service", enablement="disabled")
    config = node.path("etc/containerd/config.toml", b"former\n")
    node.answers["containerd"] = (0, "disabled_plugins = []\n", "")
    node.ledger.write_file(str(config), b"ours\n")
    bring(node.systemd, node.ledger, "containerd", UnitWish("started", True, None))
    report = node.restore(force=True)
    assert sorted(names(report.restored)) == [str(config), "containerd.service"]
    assert report.notify_units == []


def test_swap_that_is_on_already_needs_nothing(node: Node) -> None:
    node.path("swap file", b"")
    node.path("proc/swaps", b"Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n")
    node.ledger.note("swap", "/swap file", {"active": True, "priority": -2}, {"active": False})
    report = node.restore()
    assert (report.restored, report.refused, report.problems) == ([], [], [])
    assert node.ledger.entries() == []


@pytest.mark.parametrize(
    ("answer", "refused", "starts"),
    [
        ((0, "disabled_plugins = []\n", ""), False, True),
        ((1, "", "containerd: failed to load TOML: (3, 1): parsing error\n"), True, False),
        ((0, 'disabled_plugins = ["cri"]\n', ""), True, True),
        ((127, "", "containerd: No such file"), False, True),
    ],
)
def test_containerd_itself_is_asked_about_its_former_configuration(
    node: Node, answer: tuple[int, str, str], refused: bool, starts: bool
) -> None:
    config = node.path("etc/containerd/config.toml", b"former\n")
    node.ledger.write_file(str(config), b"ours\n")
    node.answers["containerd"] = answer
    report = node.restore()
    assert names(report.refused) == ([str(config)] if refused else [])
    assert report.notify_units == ([] if refused else ["containerd.service"])
    assert config.read_bytes() == (b"ours\n" if refused else b"former\n")
    if refused:
        assert node.restore(force=True).notify_units == (["containerd.service"] if starts else [])
        assert config.read_bytes() == b"former\n"


def test_a_drop_in_that_a_kept_configuration_imports_stays(node: Node) -> None:
    config = node.path("etc/containerd/config.toml", b"former\n")
    drop_in = node.root / "etc/containerd/conf.d/50-ours.toml"
    node.ledger.write_file(str(drop_in), b"x\n")
    ours = b'imports = ["/etc/containerd/conf.d/50-ours.toml"]\n'
    node.ledger.write_file(str(config), ours)
    node.answers["containerd"] = (0, "", "")
    config.write_bytes(ours + b"# theirs\n")
    report = node.restore()
    assert names(report.refused) == [str(drop_in)]
    assert drop_in.exists()
    config.write_bytes(ours)
    assert names(node.restore(check_mode=True).restored) == names(node.restore().restored)
    assert not drop_in.parent.exists()


def test_a_sysctl_that_another_file_sets_too_keeps_its_value(node: Node) -> None:
    value = node.path("proc/sys/net/ipv4/ip_forward", b"1\n")
    node.path("etc/sysctl.d/50-docker.conf", b"net.ipv4.ip_forward=1\n")
    node.ledger.write_file(str(node.root / "etc/sysctl.d/99-ours.conf"), b"net.ipv4.ip_forward = 1\n")
    node.ledger.note("sysctl", "net.ipv4.ip_forward", "0", "1")
    told = node.restore(check_mode=True)
    report = node.restore()
    assert told == report
    assert "50-docker.conf" in report.kept[0]["reason"]
    assert value.read_text() == "1\n"


def test_packages_go_only_when_told_so(node: Node) -> None:
    node.answers["dpkg-query"] = (0, "installed", "")
    node.answers["apt-get"] = (0, "", "")
    node.ledger.note("package", "jq", {"installed": False}, {"installed": True})
    node.ledger.note("package", "containerd", {"installed": False}, {"installed": True})
    assert sorted(names(node.restore().kept)) == ["containerd", "jq"]
    report = node.restore(remove_packages=True)
    assert (names(report.restored), names(report.refused)) == (["jq"], ["containerd"])
    assert node.double.changes()[-1] == "apt-get -y remove jq"


def test_the_directory_of_a_former_file_must_be_there(node: Node) -> None:
    path = node.path("etc/sub/f", b"original")
    node.ledger.remove_file(str(path))
    path.parent.rmdir()
    assert "make it and run again" in node.restore().problems[0]
    path.parent.mkdir()
    assert names(node.restore().restored) == [str(path)]
