# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The staged copy: what git knows and what is new, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import stage
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small git checkout whose name says nothing."""
    root = tmp_path / "some name"
    (root / "roles").mkdir(parents=True)
    (root / ".gitignore").write_text("junk/\n")
    (root / "tracked").write_text("a")
    (root / "gone").write_text("b")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "roles" / "link").symlink_to("../tracked")
    for arguments in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    (root / "gone").unlink()
    (root / "new").write_text("c")
    (root / "junk").mkdir()
    (root / "junk" / "file").write_text("d")
    return root


def test_files_are_what_is_tracked_and_there_and_what_is_new(checkout: Path) -> None:
    names = [str(name) for name in stage.files(checkout)]
    assert names == [".gitignore", "new", "roles/link", "run", "tracked"]


def test_a_copy_keeps_links_and_modes(checkout: Path, tmp_path: Path) -> None:
    stage.copy(checkout, tmp_path / "copy")
    assert os.readlink(tmp_path / "copy" / "roles" / "link") == "../tracked"
    assert os.access(tmp_path / "copy" / "run", os.X_OK)


def test_a_stage_is_gone_afterwards_whatever_was_written_into_it(checkout: Path, tmp_path: Path) -> None:
    with stage.staged(checkout, tmp_path / "cache") as made:
        assert (made.collection / "tracked").read_text() == "a"
        assert made.collection.parts[-3:] == ("ansible_collections", "colocation", "kubernetes")
        (made.collection / "tests" / "output").mkdir(parents=True)
    assert list((tmp_path / "cache" / "stage").glob("run-*")) == []


def test_stages_of_killed_runs_are_swept_and_those_of_living_runs_are_not(checkout: Path, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "stage" / "run-killed"
    (left / "ansible_collections").mkdir(parents=True)
    with stage.staged(checkout, tmp_path / "cache") as first, stage.staged(checkout, tmp_path / "cache") as second:
        assert not left.exists()
        assert (first.collection / "tracked").exists()
        assert (second.collection / "tracked").exists()


def test_a_directory_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotGoOn, match="Is it a git checkout"):
        stage.files(tmp_path)
