# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whatever happened before, kills too: an uninstall gives back the original, or leaves what is not ours and says so."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import look
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import (
    killed_at,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.node_double import (
    Node,
    change_much,
    do_much,
    names,
)


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_disks() -> Iterator[None]:
    """Thousands of small files are written here; that they reach the disk is not what is tested."""
    with mock.patch.object(os, "fsync", lambda handle: None):
        yield


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
    change_much(pristine)
    nodes = _each_kill(tmp_path, change_much, act)
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
    change_much(pristine)

    def prepare(node: Node) -> None:
        change_much(node)
        do_much(node)

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
        kept = {name for name in first if str(node.root / name) in names(report.kept)} | problematic
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
