# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The half on the node, called as the action plugin calls it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.modules import agent_release
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import Archive
from ansible_collections.colocation.kubernetes.tests.unit.plugins.agent_trees import PYTHON, archive
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


class Node:
    """A directory of releases, and the calls of the action plugin."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place / "opt"

    def __call__(self, check_mode: bool = False, **more: Any) -> dict[str, Any]:
        options = {"root": str(self.root), "state_dir": str(self.place / "state"), "interpreter": sys.executable}
        return call(agent_release.main, check_mode, **options, **more)

    def see(self) -> dict[str, Any]:
        return self(order={"pythons": [PYTHON]})

    def settle(self, packed: Archive, copied: bool = True, **more: Any) -> dict[str, Any]:
        arrived = {"archive": packed.path, "sha256": packed.sha256} if copied else {}
        return self(order={"release": packed.release.to_json(), **arrived}, **more)

    @property
    def releases(self) -> set[str]:
        return set(os.listdir(self.root / "releases"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def packed(tmp_path: Path) -> list[Archive]:
    return [archive(tmp_path / str(number), f"number = {number}\n") for number in range(4)]


def test_what_a_bare_node_says(node: Node) -> None:
    said = node.see()
    assert said["interpreter"] | {"glibc": 0} == {
        "path": sys.executable,
        "version": platform.python_version(),
        "python": PYTHON,
        "architecture": platform.machine(),
        "glibc": 0,
    }
    assert (said["view"]["installed"], said["view"]["current"], said["changed"]) == ([], "", False)
    assert not node.root.exists()


def test_a_release_is_installed_and_linked_once(node: Node, packed: list[Archive]) -> None:
    first = node.settle(packed[0])
    assert (first["changed"], first["installed"], first["removed"]) == (True, True, [])
    assert os.readlink(node.root / "current") == f"releases/{packed[0].release.id}"
    second = node.settle(packed[0], copied=False)
    assert (second["changed"], second["installed"]) == (False, False)
    (found,) = node.see()["view"]["installed"]
    assert (found["id"], found["fault"]) == (packed[0].release.id, "")


def test_current_stays_and_the_oldest_goes(node: Node, packed: list[Archive]) -> None:
    for one in packed[:3]:
        node.settle(one)
    last = node.settle(packed[3])
    assert os.readlink(node.root / "current") == f"releases/{packed[0].release.id}"
    assert last["removed"] == [packed[1].release.id]
    assert node.releases == {packed[number].release.id for number in (0, 2, 3)}


def test_leftovers_go_with_the_next_run(node: Node, packed: list[Archive]) -> None:
    (node.root / "releases" / ".partial-0.1.0-000000000000-12345678" / "colocation").mkdir(parents=True)
    assert node.settle(packed[0])["changed"]
    assert node.releases == {packed[0].release.id}


def test_a_release_that_went_away_meanwhile_is_told(node: Node, packed: list[Archive]) -> None:
    said = node.settle(packed[0], copied=False)
    assert said["failed"]
    assert said["msg"] == f"release {packed[0].release.id} was changed while we looked; run again"


def test_a_bad_archive_changes_nothing(node: Node, packed: list[Archive]) -> None:
    node.settle(packed[0])
    Path(packed[1].path).write_bytes(b"cut")
    said = node.settle(packed[1])
    assert said["failed"]
    assert "the archive was damaged on its way (3 bytes arrived" in said["msg"]
    assert node.releases == {packed[0].release.id}


def test_an_interpreter_that_is_not_there_is_told(node: Node) -> None:
    said = node(order={"pythons": ["3.99"]})
    assert said["failed"]
    assert said["msg"].startswith(f"agent_runtime_python_interpreter is {sys.executable}: it is Python {PYTHON}, and")


def test_everything_goes_once(node: Node, packed: list[Archive]) -> None:
    for one in packed[:2]:
        node.settle(one)
    names = sorted(one.release.id for one in packed[:2])
    told = node(check_mode=True, state="absent")
    assert (told["changed"], told["removed"], node.releases) == (True, names, set(names))
    assert told["diff"]["before"] == "".join(f"{node.root}/releases/{name}\n" for name in names)
    done = node(state="absent")
    assert {key: done[key] for key in told if key != "invocation"} == {
        key: told[key] for key in told if key != "invocation"
    }
    assert not node.root.exists()
    again = node(state="absent")
    assert (again["changed"], again["removed"], again["kept"]) == (False, [], [])


def test_called_without_its_action_plugin_it_says_so(node: Node) -> None:
    said = node()
    assert said["failed"]
    assert "works through its action plugin" in said["msg"]


def test_a_root_that_can_not_be_made_is_told(node: Node, packed: list[Archive]) -> None:
    node.root.write_text("a file")
    said = node.settle(packed[0])
    assert said["failed"]
    assert said["msg"].startswith(f"the releases in {node.root} can't be changed: ")
