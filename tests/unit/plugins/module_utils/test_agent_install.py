# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A small release is installed with the Python of this test; whatever goes wrong, what stood there still stands."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _agent_install
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_install import Order, install, space_needed
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_releases import ReleaseError
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release, faults
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import Archive
from ansible_collections.colocation.kubernetes.tests.unit.plugins.agent_trees import archive, run


def order(packed: Archive) -> Order:
    return Order(packed.path, packed.sha256, packed.release, sys.executable)


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    made = tmp_path / "releases"
    made.mkdir()
    return made


@pytest.fixture
def good(tmp_path: Path) -> Order:
    return order(archive(tmp_path / "good"))


def record(release: Path) -> Release:
    return Release.from_json(json.loads((release / "RELEASE.json").read_text()))


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000, 0o002])
def test_a_release_stands_there_whole(good: Order, releases: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        install(good, str(releases), run)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert os.listdir(releases) == [good.release.id]
    there = releases / good.release.id
    assert record(there) == replace(good.release, bytecode_sha256=record(there).bytecode_sha256)
    assert faults(str(there), record(there), os.geteuid()) == ""
    assert {path.stat().st_mode & 0o777 for path in there.rglob("*") if path.is_file()} == {0o644}


def test_its_bytecode_is_taken_as_it_is_and_knows_where_it_is(good: Order, releases: Path) -> None:
    install(good, str(releases), run)
    there = releases / good.release.id
    for source in there.rglob("*.py"):
        assert len([*source.parent.glob(f"__pycache__/{source.stem}.*.pyc")]) == 1
    (there / "colocation" / "echo" / "__init__.py").write_text("a syntax error")
    subprocess.run([sys.executable, "-EsB", "-c", "import colocation.echo"], cwd=there, check=True)
    found = next((there / "colocation" / "proxy" / "__pycache__").glob("__main__.*.pyc")).read_bytes()
    assert str(there).encode() in found, "tracebacks name the release"
    assert b".partial-" not in found


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import missing_module\n", "echo does not start here .*No module named 'missing_module'"),
        ("def f(:\n", "it can't be compiled"),
        ("raise SystemExit('wrong machine')\n", "echo does not start here .*wrong machine"),
    ],
)
def test_a_release_that_does_not_start_is_none(tmp_path: Path, releases: Path, code: str, said: str) -> None:
    bad = order(archive(tmp_path / "bad", code))
    with pytest.raises(ReleaseError, match=rf"release {bad.release.id} was not installed: {said}"):
        install(bad, str(releases), run)
    assert os.listdir(releases) == []


def test_an_agent_that_comes_from_elsewhere_is_noticed(tmp_path: Path, releases: Path) -> None:
    """Something on the node is before us in the interpreter's path."""
    elsewhere = tmp_path / "site" / "colocation" / "common"
    elsewhere.mkdir(parents=True)
    for package in (elsewhere, elsewhere.parent):
        (package / "__init__.py").touch()
    shadow = tmp_path / "python"
    shadow.write_text(
        f'#!/bin/sh\n[ "$2" = -m ] && exec {sys.executable} "$@"\nshift 2; code=$1; shift\n'
        f'exec {sys.executable} -EsB -c "import sys; sys.path.insert(0, \'{tmp_path}/site\')\n$code" "$@"\n'
    )
    shadow.chmod(0o755)
    good = replace(order(archive(tmp_path / "good")), interpreter=str(shadow))
    with pytest.raises(ReleaseError, match=rf"colocation.common comes from {elsewhere}"):
        install(good, str(releases), run)


@pytest.mark.parametrize("bytes_left", [0, 1, -1])
def test_an_archive_that_was_cut_on_its_way_is_not_unpacked(good: Order, releases: Path, bytes_left: int) -> None:
    with open(good.archive, "rb+") as file:
        file.truncate(bytes_left if bytes_left >= 0 else os.stat(good.archive).st_size + bytes_left)
    with pytest.raises(ReleaseError, match=r"damaged on its way \(\d+ bytes arrived.*run again"):
        install(good, str(releases), run)
    assert os.listdir(releases) == []


def test_an_archive_that_is_gone_is_told(good: Order, releases: Path) -> None:
    os.unlink(good.archive)
    with pytest.raises(ReleaseError, match="the copied archive can't be read: .*No such file"):
        install(good, str(releases), run)


def test_another_tree_than_was_ordered_is_no_release(good: Order, releases: Path) -> None:
    other = replace(good.release, tree_sha256="0" * 64)
    with pytest.raises(ReleaseError, match="what was unpacked is not what the controller packed"):
        install(replace(good, release=other), str(releases), run)
    assert os.listdir(releases) == []


def test_a_disk_without_room_is_told_before_anything_is_written(
    good: Order, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = space_needed(good.release)
    monkeypatch.setattr(_agent_install, "free", lambda path: needed - 1)
    monkeypatch.setattr(_agent_install, "unpack", None)  # would be an error
    with pytest.raises(ReleaseError, match=rf"in {releases}: {needed} bytes are needed and {needed - 1} are free"):
        install(good, str(releases), run)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_meanwhile_is_told(
    good: Order, releases: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(archive: str, root: str) -> None:
        os.mkdir(root)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(_agent_install, "unpack", full)
    with pytest.raises(ReleaseError, match=r"got full on the way, .*\(\d+ bytes and \d+ inodes are free now\)"):
        install(good, str(releases), run)
    assert os.listdir(releases) == []


def test_space_is_enough_for_what_a_release_really_takes(good: Order, releases: Path) -> None:
    install(good, str(releases), run)
    took = sum(path.stat().st_blocks * 512 for path in releases.rglob("*"))
    assert took <= space_needed(good.release)


def test_a_damaged_release_is_replaced_and_a_failing_replacement_leaves_it(good: Order, releases: Path) -> None:
    install(good, str(releases), run)
    there = releases / good.release.id
    inode = there.stat().st_ino
    (there / "madeup" / "__init__.py").write_text("damaged")
    with pytest.raises(ReleaseError):
        install(replace(good, interpreter="/bin/false"), str(releases), run, replaces=True)
    assert there.stat().st_ino == inode
    install(good, str(releases), run, replaces=True)
    assert faults(str(there), record(there), os.geteuid()) == ""
    assert os.listdir(releases) == [good.release.id]


@pytest.mark.parametrize("step", ["unpack", "_compile", "_smoke", "_write_record", "_sync", "_take_place"])
def test_a_run_killed_at_any_step_leaves_no_release(
    good: Order, releases: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """In a child that ends without any cleaning up, as by a cut connection."""
    monkeypatch.setattr(_agent_install, step, lambda *words, **more: os._exit(9))
    child = os.fork()
    if child == 0:
        install(good, str(releases), run)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    assert all(name.startswith(".partial-") for name in os.listdir(releases))
    install(good, str(releases), run)
    assert good.release.id in os.listdir(releases)
