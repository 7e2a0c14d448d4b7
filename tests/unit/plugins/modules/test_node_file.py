# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.modules import node_file
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


class Caller:
    def __init__(self, tmp_path: Path) -> None:
        self.state_dir = tmp_path / "state"

    def __call__(self, path: Path, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        return call(node_file.main, check_mode, path=str(path), state_dir=str(self.state_dir), owner="role", **params)


@pytest.fixture
def run(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def test_check_mode_and_the_run_say_the_same(run: Caller, tmp_path: Path) -> None:
    path = tmp_path / "etc" / "f"
    told = run(path, True, content="x\n", mode="0600")
    assert not path.parent.exists()
    done = run(path, content="x\n", mode="0600")
    assert {key: done[key] for key in told} == told  # Ansible itself adds owner, size ... of what is there
    assert (done["changed"], done["diff"]["after"], done["mode"]) == (True, "x\n", "0600")
    assert path.read_text() == "x\n"
    again = run(path, content="x\n", mode="0600")
    assert (again["changed"], "diff" in again) == (False, False)


def test_an_empty_content_is_an_empty_file(run: Caller, tmp_path: Path) -> None:
    assert run(tmp_path / "f", content="")["changed"]
    assert (tmp_path / "f").read_bytes() == b""


def test_link_and_absence(run: Caller, tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert run(path, target="/dev/null")["diff"]["after"] == "-> /dev/null\n"
    assert os.readlink(path) == "/dev/null"
    assert not run(path, target="/dev/null")["changed"]
    assert run(path, state="absent")["diff"]["before"] == "-> /dev/null\n"
    assert not run(path, state="absent")["changed"]
    assert not path.is_symlink()


def test_a_followed_link_is_a_warning(run: Caller, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "f").symlink_to("real")
    answer = run(tmp_path / "f", content="new")
    assert str(tmp_path / "real") in answer["warnings"][0]
    assert answer["path"] == str(tmp_path / "real")
    assert run(tmp_path / "f", content="new", follow=False)["warnings"] == []


def test_the_ledger_has_the_original_and_the_owner(run: Caller, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    run(tmp_path / "f", content="new")
    (entry,) = Ledger(str(run.state_dir)).entries()
    assert (entry.owner, Ledger(str(run.state_dir), "role").original(entry)) == ("role", b"old")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "needs one of content and target"),
        ({"content": "x", "target": "y"}, "needs one of content and target"),
        ({"content": "x", "mode": "rw-r--r--"}, "is not an octal mode"),
        ({"content": "x", "mode": "0999"}, "is not an octal mode"),
        ({"content": "x", "mode": "77777"}, "is not an octal mode"),
    ],
)
def test_bad_parameters_are_named(run: Caller, tmp_path: Path, params: dict[str, Any], words: str) -> None:
    answer = run(tmp_path / "f", **params)
    assert answer["failed"]
    assert words in answer["msg"]
    assert os.listdir(tmp_path) == []


def test_a_relative_path_and_a_directory_are_refused(run: Caller, tmp_path: Path) -> None:
    assert "is not absolute" in run(Path("f"), content="x")["msg"]
    assert "neither a file nor a link" in run(tmp_path, content="x")["msg"]
    (tmp_path / "file").write_text("x")
    assert str(tmp_path / "file") in run(tmp_path / "file" / "below", content="x")["msg"]
