# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What stands at the agents' directory, what is in use, and what goes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_releases import (
    Installed,
    ReleaseError,
    View,
    drop,
    free,
    lacks_room,
    locked,
    look,
    plan,
    point,
    removal,
    remove_all,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import bytecode_digest, describe

IDS = [f"0.1.{number}-{number:012x}" for number in range(6)]
WANTED, *OTHERS = IDS


def view(installed: list[str], current: str = "", used: dict[str, str] | None = None) -> View:
    return View(tuple(Installed(name, "3.13", "x86_64", "") for name in installed), current, used or {}, (), 10**9)


# Plans


def test_a_bare_node_gets_the_release_and_the_link() -> None:
    todo = plan(view([]), WANTED, "3.13", "x86_64", 3)
    assert (todo.install, todo.link, todo.remove, todo.changes) == (True, True, (), True)


def test_a_node_that_has_it_is_left_alone() -> None:
    assert not plan(view([WANTED], current=WANTED), WANTED, "3.13", "x86_64", 3).changes


def test_current_is_not_moved_from_another_release() -> None:
    todo = plan(view([OTHERS[0]], current=OTHERS[0]), WANTED, "3.13", "x86_64", 3)
    assert (todo.install, todo.link) == (True, False)


def test_current_that_leads_nowhere_is_set() -> None:
    assert plan(view([WANTED], current=OTHERS[0]), WANTED, "3.13", "x86_64", 3).link


@pytest.mark.parametrize(
    ("there", "fault"),
    [
        (Installed(WANTED, "3.13", "x86_64", "its files are not …"), "its files are not …"),
        (Installed(WANTED, "3.11", "x86_64", ""), "it is made for Python 3.11 on x86_64"),
        (Installed(WANTED, "3.13", "aarch64", ""), "it is made for Python 3.13 on aarch64"),
    ],
)
def test_a_release_that_is_not_as_it_should_be_is_replaced(there: Installed, fault: str) -> None:
    todo = plan(replace(view([]), installed=(there,), current=WANTED), WANTED, "3.13", "x86_64", 3)
    assert (todo.install, todo.replaces) == (True, fault)


def test_of_a_fault_in_another_release_nothing_follows() -> None:
    there = (Installed(WANTED, "3.13", "x86_64", ""), Installed(OTHERS[0], "", "", "damaged"))
    assert not plan(replace(view([]), installed=there, current=WANTED), WANTED, "3.13", "x86_64", 3).changes


def test_the_newest_stay() -> None:
    assert plan(view(OTHERS, current=OTHERS[0]), WANTED, "3.13", "x86_64", 3).remove == tuple(OTHERS[2:])


def test_what_is_used_stays_before_what_is_newer() -> None:
    used = {OTHERS[3]: "current leads to it", OTHERS[4]: "process 1 runs from it"}
    assert plan(view(OTHERS, OTHERS[3], used), WANTED, "3.13", "x86_64", 3).remove == tuple(OTHERS[:3])


def test_a_small_disk_is_told_unless_leftovers_may_be_what_fills_it() -> None:
    bare = replace(view([]), free=99)
    half = replace(bare, leftovers=(".partial-0.1.0-000000000000-12345678",))
    assert lacks_room(bare, plan(bare, WANTED, "3.13", "x86_64", 3), 100)
    assert not lacks_room(bare, plan(bare, WANTED, "3.13", "x86_64", 3), 99)
    assert not lacks_room(half, plan(half, WANTED, "3.13", "x86_64", 3), 100)
    there = replace(view([WANTED], current=WANTED), free=0)
    assert not lacks_room(there, plan(there, WANTED, "3.13", "x86_64", 3), 100)


@given(st.permutations(IDS), st.integers(0, 6), st.sets(st.sampled_from(IDS)), st.integers(1, 7))
def test_removal_never_takes_what_is_used_and_never_leaves_too_many(
    order: list[str], count: int, using: set[str], keep: int
) -> None:
    there = order[:count]
    used = {name: "used" for name in using if name in there}
    todo = plan(view(there, used=used), WANTED, "3.13", "x86_64", keep)
    left = ({*there} - {*todo.remove}) | {WANTED}
    assert {WANTED, *used} <= left
    assert len(left) == min(max(keep, len({WANTED, *used})), len({WANTED, *there}))
    stayed = [there.index(name) for name in left if name in there and name not in used and name != WANTED]
    assert all(there.index(name) > max(stayed, default=-1) for name in todo.remove)


# Looking


class Node:
    """A made /opt/colocation with its state directory and /proc."""

    def __init__(self, place: Path) -> None:
        self.root, self.state, self.proc = place / "opt", place / "state", place / "proc"
        self.releases = self.root / "releases"
        (self.proc / "1").mkdir(parents=True)  # one whose cwd can't be read

    def add(self, version: str, when: int) -> str:
        made = self.releases / "new"
        (made / "colocation" / "one").mkdir(parents=True)
        (made / "colocation" / "one" / "__main__.py").write_text(version)
        release = describe(str(made), version, "3.13", "x86_64")
        release = replace(release, bytecode_sha256=bytecode_digest(str(made), "3.13"))
        (made / "RELEASE.json").write_text(json.dumps(release.to_json()))
        os.utime(made / "RELEASE.json", (when, when))
        made.rename(self.releases / release.id)
        return release.id

    def start(self, pid: int, directory: str) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "cwd").symlink_to(self.releases / directory)

    def look(self) -> View:
        return look(str(self.root), str(self.state), str(self.proc))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_bare_node_is_seen(node: Node) -> None:
    found = node.look()
    assert found == View((), "", {}, (), found.free)
    assert found.free > 0
    assert View.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_releases_are_seen_newest_first_with_their_faults(node: Node) -> None:
    first, second = node.add("0.1.0", 1000), node.add("0.2.0", 2000)
    (node.releases / first / "colocation" / "one" / "__main__.py").write_text("changed")
    (node.releases / ".partial-0.3.0-000000000000-12345678").mkdir()
    (node.releases / "notes.txt").touch()
    found = node.look()
    assert [item.id for item in found.installed] == [second, first]
    assert [item.fault for item in found.installed] == ["", "its files are not what was installed"]
    assert found.leftovers == (".partial-0.3.0-000000000000-12345678",)
    assert View.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_directory_that_only_has_the_name_of_a_release_is_a_damaged_one(node: Node) -> None:
    good = node.add("0.1.0", 1000)
    (node.releases / "0.2.0-000000000000").mkdir()
    (node.releases / good).rename(node.releases / "0.3.0-000000000000")
    faults = {item.id: item.fault for item in node.look().installed}
    assert "RELEASE.json can't be read" in faults["0.2.0-000000000000"]
    assert faults["0.3.0-000000000000"] == f"it says that it is {good}"


def test_what_is_in_use_is_seen_with_the_reason(node: Node) -> None:
    now, runs, previous, unused = (node.add(f"0.{n}.0", n) for n in range(4))
    point(str(node.root), now)
    node.start(77, f"{runs}/colocation")
    node.start(78, f"{runs}")
    (node.state / "agents").mkdir(parents=True)
    (node.state / "agents" / "one.json").write_text(json.dumps({"previous": {"release": previous}}))
    found = node.look()
    assert found.current == now
    assert found.used == {
        now: "current leads to it",
        runs: "process 77 runs from it",
        previous: "an agent's record names it",
    }
    assert unused in {item.id for item in found.installed}


def test_a_damaged_record_protects_too(node: Node) -> None:
    name = node.add("0.1.0", 1)
    (node.state / "agents").mkdir(parents=True)
    (node.state / "agents" / "one.json").write_bytes(b'\xff{"previous": {"release": "' + name.encode() + b'", cut')
    assert node.look().used == {name: "an agent's record names it"}


def test_a_process_in_a_removed_release_uses_nothing(node: Node) -> None:
    node.add("0.1.0", 1)
    node.start(77, "0.2.0-000000000000 (deleted)")
    assert node.look().used == {}


def test_a_root_behind_a_link_is_the_same(node: Node, tmp_path: Path) -> None:
    name = node.add("0.1.0", 1)
    point(str(node.root), name)
    node.start(77, name)
    (tmp_path / "link").symlink_to(node.root)
    assert look(str(tmp_path / "link"), str(node.state), str(node.proc)).used == {name: "current leads to it"}
    with pytest.raises(ReleaseError, match="process 77"):
        removal(str(tmp_path / "link"), str(node.proc))


def test_free_space_is_that_of_the_nearest_directory(tmp_path: Path) -> None:
    assert free(str(tmp_path / "not" / "there" / "yet")) > 0


# Changing


def test_current_is_moved_in_one_step(node: Node) -> None:
    first, second = node.add("0.1.0", 1), node.add("0.2.0", 2)
    for name in (first, second):
        point(str(node.root), name)
        assert (node.root / "current").resolve() == node.releases / name
        assert os.readlink(node.root / "current") == f"releases/{name}"
    assert sorted(path.name for path in node.root.iterdir()) == ["current", "releases"]


def test_something_else_at_current_is_left(node: Node) -> None:
    (node.root / "current").mkdir(parents=True)
    with pytest.raises(ReleaseError, match="current is not a link; move it away"):
        point(str(node.root), "a")


def test_one_run_at_a_time(node: Node) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with (
        locked(str(node.root)),
        pytest.raises(ReleaseError, match="another run has changed .* for 3 s and still does; wait for its end"),
        locked(str(node.root), 3, lambda: now[0], sleep),
    ):
        pass
    assert now[0] >= 3
    with locked(str(node.root)) as releases:
        assert releases == str(node.releases)


def test_the_end_of_a_killed_run_is_waited_for(node: Node) -> None:
    """Its controller is gone, its module is not; meanwhile it removes all, the directory that we wait for too."""
    with contextlib.ExitStack() as first:
        first.enter_context(locked(str(node.root)))

        def end(seconds: float) -> None:
            shutil.rmtree(node.root)
            first.close()

        with locked(str(node.root), 3, sleep=end) as releases:
            assert releases == str(node.releases)
            assert node.releases.is_dir()


def test_directories_get_their_modes_under_any_umask(node: Node) -> None:
    before = os.umask(0o077)
    try:
        with locked(str(node.root)):
            pass
    finally:
        os.umask(before)
    assert [oct(path.stat().st_mode & 0o7777) for path in (node.root, node.releases)] == ["0o755", "0o755"]


def test_a_directory_that_others_can_write_is_refused(node: Node) -> None:
    node.releases.mkdir(parents=True)
    node.releases.chmod(0o777)
    with (
        pytest.raises(ReleaseError, match=rf"can be changed by others .* chmod go-w {node.releases}"),
        locked(str(node.root)),
    ):
        pass


def test_a_release_loses_its_name_before_its_files(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    name = node.add("0.1.0", 1)

    def killed(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        drop(str(node.releases), [name])
    assert node.look().installed == ()
    assert len(node.look().leftovers) == 1


def everything(node: Node) -> None:
    point(str(node.root), node.add("0.1.0", 1))
    node.add("0.2.0", 2)
    (node.releases / ".partial-0.3.0-000000000000-12345678" / "colocation").mkdir(parents=True)
    (node.root / ".current.colocation-new").symlink_to("releases/x")  # a run was killed while it made the link


def test_all_goes_and_a_second_time_nothing_is_left_to_do(node: Node) -> None:
    everything(node)
    told = removal(str(node.root), str(node.proc))
    assert remove_all(str(node.root), str(node.proc)) == told
    assert (len(told.releases), told.kept, told.changes) == (2, (), True)
    assert not node.root.exists()
    assert not remove_all(str(node.root), str(node.proc)).changes


def test_what_is_not_ours_stays_and_is_told(node: Node) -> None:
    everything(node)
    (node.root / "notes.txt").touch()
    (node.releases / "mine").mkdir()
    found = remove_all(str(node.root), str(node.proc))
    assert found.kept == (str(node.releases / "mine"), str(node.root / "notes.txt"))
    left = sorted(str(path.relative_to(node.root)) for path in node.root.rglob("*"))
    assert left == ["notes.txt", "releases", "releases/mine"]
    assert not remove_all(str(node.root), str(node.proc)).changes


def test_nothing_goes_while_an_agent_runs(node: Node) -> None:
    everything(node)
    name = node.look().current
    node.start(77, name)
    before = sorted(node.root.rglob("*"))
    for call in (removal, remove_all):
        function: Callable[..., object] = call
        with pytest.raises(ReleaseError, match=rf"still run from .* \({name}: process 77\): stop and remove their un"):
            function(str(node.root), str(node.proc))
    assert sorted(node.root.rglob("*")) == before


@pytest.mark.parametrize("left", ["nothing", "the link", "an empty directory", "empty directories"])
def test_half_an_installation_goes(node: Node, left: str) -> None:
    if left == "the link":
        point_at = node.root / "current"
        node.root.mkdir()
        point_at.symlink_to("releases/x")
    elif left == "an empty directory":
        node.root.mkdir()
    elif left == "empty directories":
        node.releases.mkdir(parents=True)
    assert remove_all(str(node.root), str(node.proc)).changes == (left != "nothing")
    assert not node.root.exists()
