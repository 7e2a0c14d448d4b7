# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command lines, called as a user calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COLLECTION = Path(__file__).resolve().parents[3]
PARTS = ["lint", "sanity", "unit", "contract", "molecule"]


def call(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLOCATION_CACHE": str(tmp_path / "cache")}
    command = [str(COLLECTION / arguments[0]), *arguments[1:]]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["test", "demo", "bench"])
def test_help_changes_nothing(name: str, tmp_path: Path) -> None:
    answer = call(tmp_path, name, "--help")
    assert answer.returncode == 0
    assert f"usage: ./{name}" in answer.stdout
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["test", "demo", "bench"])
def test_nothing_but_python_is_needed(name: str, tmp_path: Path) -> None:
    """A fresh machine's python3 has no packages; -I and -S take away those of this one."""
    command = [sys.executable, "-I", "-S", "-B", str(COLLECTION / "tests" / "run"), name, "--help"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_an_unknown_part_is_answered_with_the_parts_in_their_order(tmp_path: Path) -> None:
    answer = call(tmp_path, "test", "lint", "untit")
    assert answer.returncode == 2
    assert f"there is no part untit; parts: {', '.join(PARTS)}" in answer.stderr
    assert not (tmp_path / "cache").exists()


def test_an_unknown_scenario_is_answered_with_those_there_are(tmp_path: Path) -> None:
    answer = call(tmp_path, "test", "--scenario", "memory", "--scenario", "memroy")
    assert answer.returncode == 2
    assert "there is no scenario memroy; scenarios: agents, cri_proxy," in answer.stderr
    assert not (tmp_path / "cache").exists()


def test_an_unknown_benchmark_is_refused(tmp_path: Path) -> None:
    answer = call(tmp_path, "bench", "no-such-thing")
    assert answer.returncode == 2
    assert "There is no benchmark called no-such-thing" in answer.stderr


def test_a_command_works_through_a_link_and_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(COLLECTION / "test")
    answer = subprocess.run([tmp_path / "link", "--help"], cwd="/", capture_output=True, text=True, check=False)
    assert answer.returncode == 0


def test_a_cache_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    answer = call(tmp_path, "test", "lint")
    assert answer.returncode == 1
    assert "COLOCATION_CACHE" in answer.stdout
    assert answer.stdout.splitlines()[-1] == "0 passed, 1 failed"
