# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.modules import node_restore
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(node_restore, "ROOT", str(tmp_path))
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"original {name}\n")
        Ledger(str(tmp_path / "state"), f"owner_{name}").write_file(str(tmp_path / name), b"ours\n")
    return tmp_path


def _run(root: Path, check_mode: bool = False, **params: Any) -> dict[str, Any]:
    return call(node_restore.main, check_mode, state_dir=str(root / "state"), **params)


def test_check_mode_and_the_run_say_the_same_and_a_second_run_nothing(root: Path) -> None:
    told = _run(root, True)
    assert (root / "one").read_text() == "ours\n"
    done = _run(root)
    assert told == done
    assert {diff["after"] for diff in done["diff"]} == {"original one\n", "original two\n"}
    assert sorted(os.listdir(root)) == ["one", "two"]
    assert (root / "two").read_text() == "original two\n"
    assert not _run(root)["changed"]


def test_only_the_owners_that_are_named(root: Path) -> None:
    answer = _run(root, owners=["owner_two", "nobody"])
    assert [line["owner"] for line in answer["restored"]] == ["owner_two"]
    assert (root / "one").read_text() == "ours\n"


def test_problems_are_warnings_too(root: Path) -> None:
    for name in os.listdir(root / "state/ledger"):
        if name.startswith("file.one") and name.endswith(".json"):
            (root / "state/ledger" / name).write_text("{")
    answer = _run(root)
    assert len(answer["problems"]) == 1
    assert "file.one" in answer["warnings"][0]
    assert (root / "two").read_text() == "original two\n"


def test_nothing_to_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_restore, "ROOT", str(tmp_path))
    answer = _run(tmp_path)
    assert (answer["changed"], answer["restored"], answer["problems"]) == (False, [], [])
    assert os.listdir(tmp_path) == []
