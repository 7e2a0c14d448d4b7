# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The walk, over trees in temporary directories with a double of systemd."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import look
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import Limits, Report, Walk
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import bring
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import (
    FakeSystemd,
    killed_at,
)


class Node:
    """A node in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.double = FakeSystemd(root)
        self.answers: dict[str, tuple[int, str, str]] = {}
        (root / "etc").mkdir(parents=True)
        (root / "var/lib").mkdir(parents=True)
        self.ledger = Ledger(str(root / "var/lib/colocation"), "role")
        self.systemd = Systemd(self.run, str(root), clock=self.double.clock, sleep=self.double.sleep)

    def run(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] in self.answers:
            self.double.calls.append(" ".join(command))
            return self.answers[command[0]]
        return self.double(command)

    def path(self, name: str, content: bytes | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
        return path

    def restore(self, check_mode: bool = False, **limits: Any) -> Report:
        ledger = Ledger(str(self.root / "var/lib/colocation"), check_mode=check_mode)
        return Walk(ledger, self.run, Limits(**limits), str(self.root), self.systemd).go()

    def tree(self) -> dict[str, object]:
        """All paths outside of the state directory, with what stands there."""
        return {
            str(path.relative_to(self.root)): look(str(path)) if not path.is_dir() or path.is_symlink() else "directory"
            for path in self.root.rglob("*")
            if "colocation" not in path.parts
        }


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_disks() -> Iterator[None]:
    """Thousands of small files are written here; that they reach the disk is not what is tested."""
    with mock.patch.object(os, "fsync", lambda handle: None):
        yield


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def _names(lines: list[dict[str, str]]) -> list[str]:
    return [line["name"] for line in lines]


def _change_much(node: Node) -> None:
    node.path("etc/changed", b"original\n")
    os.chmod(node.root / "etc/changed", 0o640)
    node.path("etc/removed", b"precious\n")
    node.path("etc/link").symlink_to("/somewhere")
    node.path("proc/sys/net/ipv4/ip_forward", b"0\n")
    node.double.install("other.service", active="active", enablement="enabled")


def _do_much(node: Node) -> None:
    ledger = node.ledger
    ledger.write_file(str(node.root / "etc/changed"), b"ours\n")
    ledger.write_file(str(node.root / "etc/changed"), b"ours again\n", mode=0o600)
    ledger.remove_file(str(node.root / "etc/removed"))
    ledger.make_link(str(node.root / "etc/link"), "/elsewhere")
    ledger.write_file(str(node.root / "etc/systemd/system/ours.service.d/50-x.conf"), b"x\n")
    ledger.note("sysctl", "net.ipv4.ip_forward", "0", "1")
    node.path("proc/sys/net/ipv4/ip_forward", b"1\n")
    bring(node.systemd, ledger, "other.service", UnitWish("stopped", False, True))


def test_everything_goes_back_and_nothing_of_ours_stays(node: Node) -> None:
    _change_much(node)
    before = node.tree()
    _do_much(node)
    assert node.tree() != before
    report = node.restore()
    assert node.tree() == before
    assert (report.kept, report.refused, report.problems) == ([], [], [])
    unit = node.double.units["other.service"]
    assert (unit.active, unit.enablement) == ("active", "enabled")
    assert (node.root / "proc/sys/net/ipv4/ip_forward").read_text() == "0\n"
    assert not (node.root / "var/lib/colocation").exists()


def test_check_mode_names_the_same_and_changes_nothing(node: Node) -> None:
    _change_much(node)
    _do_much(node)
    before, files = node.tree(), sorted(os.listdir(node.ledger.directory))
    calls = len(node.double.changes())
    told = node.restore(check_mode=True)
    assert (node.tree(), sorted(os.listdir(node.ledger.directory))) == (before, files)
    assert len(node.double.changes()) == calls
    done = node.restore()
    assert told == done
    assert len(done.restored) > 6


def test_a_second_run_changes_nothing(node: Node) -> None:
    _change_much(node)
    _do_much(node)
    node.path("etc/changed", b"edited since\n")
    first = node.restore()
    after, calls = node.tree(), len(node.double.changes())
    second = node.restore()
    assert (second.restored, second.diff, second.notify_units) == ([], [], [])
    assert second.kept == first.kept
    assert _names(second.kept) == [str(node.root / "etc/changed")]
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
    assert _names(node.restore(owners=("role",)).kept) == [str(path)]
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
    assert _names(node.restore().restored) == ["other.service"]


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
    assert (_names(refused.refused), refused.restored) == (["containerd.service"], [])
    assert node.double.units["containerd.service"].active == "active"
    assert node.restore() == refused
    forced = node.restore(force=True)
    assert (_names(forced.restored), forced.refused) == (["containerd.service"], [])
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
    assert sorted(_names(refused.refused)) == ["/swapfile", str(fstab)]
    assert refused.restored == []
    forced = node.restore(force=True)
    assert _names(forced.restored) == [str(fstab), "/swapfile"]
    assert node.double.changes() == ["daemon-reload", "swapon -p 5 -- /swapfile"]
    assert fstab.read_bytes() == b"/swapfile none swap sw 0 0\n"


def test_swap_that_is_on_already_needs_nothing(node: Node) -> None:
    node.path("swap file", b"")
    node.path("proc/swaps", b"Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n")
    node.ledger.note("swap", "/swap file", {"active": True, "priority": -2}, {"active": False})
    report = node.restore()
    assert (report.restored, report.refused, report.problems) == ([], [], [])
    assert node.ledger.entries() == []


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ((0, "disabled_plugins = []\n", ""), False),
        ((1, "", "containerd: failed to load TOML: (3, 1): parsing error\n"), True),
        ((0, 'disabled_plugins = ["cri"]\n', ""), True),
        ((127, "", "containerd: No such file"), False),
    ],
)
def test_containerd_itself_is_asked_about_its_former_configuration(
    node: Node, answer: tuple[int, str, str], refused: bool
) -> None:
    config = node.path("etc/containerd/config.toml", b"former\n")
    node.ledger.write_file(str(config), b"ours\n")
    node.answers["containerd"] = answer
    report = node.restore()
    assert _names(report.refused) == ([str(config)] if refused else [])
    assert report.notify_units == ([] if refused else ["containerd.service"])
    assert config.read_bytes() == (b"ours\n" if refused else b"former\n")
    if refused:
        assert node.restore(force=True).notify_units == ["containerd.service"]
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
    assert _names(report.refused) == [str(drop_in)]
    assert drop_in.exists()
    config.write_bytes(ours)
    assert _names(node.restore(check_mode=True).restored) == _names(node.restore().restored)
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
    assert sorted(_names(node.restore().kept)) == ["containerd", "jq"]
    report = node.restore(remove_packages=True)
    assert (_names(report.restored), _names(report.refused)) == (["jq"], ["containerd"])
    assert node.double.changes()[-1] == "apt-get -y remove jq"


def test_the_directory_of_a_former_file_must_be_there(node: Node) -> None:
    path = node.path("etc/sub/f", b"original")
    node.ledger.remove_file(str(path))
    path.parent.rmdir()
    assert "make it and run again" in node.restore().problems[0]
    path.parent.mkdir()
    assert _names(node.restore().restored) == [str(path)]


def _each_kill(tmp_path: Path, prepare: Callable[[Node], None], act: Callable[[Node], object]) -> list[Node]:
    """One node for each call of `act` at which it can be killed, left as the kill left it."""
    nodes: list[Node] = []
    while True:
        node = Node(tmp_path / f"node{len(nodes)}")
        prepare(node)
        nodes.append(node)
        with killed_at(len(nodes)) as calls:
            act(node)
        if len(calls) < len(nodes):
            return nodes


@pytest.mark.parametrize("again", [False, True])
def test_a_run_killed_anywhere_can_be_undone_with_or_without_a_second_try(tmp_path: Path, again: bool) -> None:
    def act(node: Node) -> None:
        ledger = Ledger(str(node.root / "var/lib/colocation"), "role")
        ledger.write_file(str(node.root / "etc/changed"), b"ours\n")
        ledger.write_file(str(node.root / "etc/changed"), b"ours again\n", mode=0o600)
        ledger.remove_file(str(node.root / "etc/removed"))
        ledger.make_link(str(node.root / "etc/link"), "/elsewhere")
        ledger.write_file(str(node.root / "etc/new/f"), b"x\n")

    pristine = Node(tmp_path / "pristine")
    _change_much(pristine)
    nodes = _each_kill(tmp_path, _change_much, act)
    assert len(nodes) > 60
    for node in nodes:
        if again:
            act(node)
        report = node.restore()
        assert (report.kept, report.refused, report.problems) == ([], [], [])
        assert node.tree() == pristine.tree()
        assert not (node.root / "var/lib/colocation").exists()


def test_a_restore_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    pristine = Node(tmp_path / "pristine")
    _change_much(pristine)

    def prepare(node: Node) -> None:
        _change_much(node)
        _do_much(node)

    nodes = _each_kill(tmp_path, prepare, lambda node: node.restore())
    assert len(nodes) > 30
    for node in nodes:
        report = node.restore()
        assert (report.kept, report.refused, report.problems) == ([], [], [])
        assert node.tree() == pristine.tree()
        unit = node.double.units["other.service"]
        assert (unit.active, unit.enablement) == ("active", "enabled")
        assert not (node.root / "var/lib/colocation").exists()


PATHS = st.sampled_from(["etc/a", "etc/sub/b"])
NUMBERS = st.integers(1, 9)
KILLS = st.one_of(st.just(0), st.integers(1, 40))
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, NUMBERS, KILLS),
    st.tuples(st.just("merge"), PATHS, NUMBERS, KILLS),
    st.tuples(st.just("link"), PATHS, NUMBERS, KILLS),
    st.tuples(st.just("remove"), PATHS, NUMBERS, KILLS),
    st.tuples(st.just("edit"), PATHS, NUMBERS, st.just(0)),
    st.tuples(st.just("delete"), PATHS, NUMBERS, st.just(0)),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o600, 0o644]), st.just(0)),
    st.tuples(st.just("put back"), PATHS, NUMBERS, st.just(0)),
    st.tuples(st.just("restore"), PATHS, NUMBERS, KILLS),
)


def _merged(content: bytes, number: int) -> bytes:
    """What a role makes of a file that it shares: one line of its own, the others stay."""
    lines = [line for line in content.splitlines(keepends=True) if not line.startswith(b"ours")]
    return b"".join([*lines, b"ours %d\n" % number])


def _user_lines(path: Path) -> set[bytes]:
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return {line for line in content.splitlines() if line.startswith(b"user")}


def _thing(path: Path) -> tuple[bytes | None, str]:
    """The content, and where a link leads."""
    target = os.readlink(path) if path.is_symlink() else ""
    return (path.read_bytes() if path.is_file() and not target else None), target


def _edit(path: Path, verb: str, number: int, original: bytes | None) -> None:
    """What somebody does by hand."""
    if verb == "chmod":
        if path.is_file() and not path.is_symlink():
            os.chmod(path, number)
        return
    if verb == "edit" and path.parent.is_dir() and not path.is_symlink():
        content = path.read_bytes() if path.exists() else b""
        path.write_bytes(content + b"user %d\n" % number)
    elif verb in ("delete", "put back"):
        path.unlink(missing_ok=True)
        if verb == "put back" and original is not None and path.parent.is_dir():
            path.write_bytes(original)
            os.chmod(path, 0o644)


def _change(node: Node, path: Path, verb: str, number: int, kill: int) -> None:
    """What a role, or an uninstall, does; killed at a call."""
    ledger = Ledger(str(node.root / "var/lib/colocation"), "role")
    with killed_at(kill):
        if verb == "write":
            ledger.write_file(str(path), b"whole %d\n" % number, whole=True, follow=False)
        elif verb == "merge" and not path.is_symlink():
            content = path.read_bytes() if path.exists() else b""
            ledger.write_file(str(path), _merged(content, number))
        elif verb == "link":
            ledger.make_link(str(path), f"/target/{number}")
        elif verb == "remove":
            ledger.remove_file(str(path))
        elif verb == "restore":
            node.restore()


@settings(max_examples=150, deadline=None)
@given(
    originals=st.tuples(st.sampled_from([None, b"", b"original\n"]), st.sampled_from([None, b"original\n"])),
    steps=st.lists(STEPS, max_size=9),
)
def test_any_history_ends_in_the_original_or_in_a_report(
    originals: tuple[bytes | None, bytes | None], steps: list[tuple[str, str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = Node(Path(directory) / "node")
        first = dict(zip(("etc/a", "etc/sub/b"), originals, strict=True))
        for name, content in first.items():
            if content is not None:
                os.chmod(node.path(name, content), 0o644)
        baseline: dict[str, tuple[bytes | None, str]] = {}
        whole: set[str] = set()
        for verb, name, number, kill in steps:
            path = node.root / name
            if verb in ("edit", "delete", "chmod", "put back"):
                _edit(path, verb, number, first[name])
                continue
            if str(path) not in {entry.name for entry in node.ledger.entries()}:
                baseline[name] = _thing(path)
            _change(node, path, verb, number, kill)
            whole |= {name} if verb in ("write", "link", "remove") else set()
        before = {name: look(str(node.root / name)) for name in first}
        lines = {name: _user_lines(node.root / name) for name in first}
        touched = {entry.name for entry in node.ledger.entries()}
        report = node.restore()
        assert report.problems == [] or "make it and run again" in report.problems[0]
        problematic = {name for name in first for problem in report.problems if str(node.root / name) in problem}
        kept = {name for name in first if str(node.root / name) in _names(report.kept)} | problematic
        for name in first:
            path = node.root / name
            if name in kept or str(path) not in touched:
                assert look(str(path)) == before[name], "what is not ours stays exactly as it is"
            else:
                assert _thing(path) == baseline[name]
            if name not in whole:
                assert _user_lines(path) >= lines[name], "no line of a user's is lost by merging and undoing"
        assert not list(node.root.rglob("*.colocation-new"))
        again = node.restore()
        assert (again.restored, again.kept) == ([], report.kept)
