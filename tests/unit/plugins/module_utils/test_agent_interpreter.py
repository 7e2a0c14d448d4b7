# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which Python of a node is taken; each is a script that says what a Python would."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_interpreter import NoInterpreter, find
from ansible_collections.colocation.kubernetes.tests.unit.plugins.agent_trees import PYTHON, run

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
USUAL = {
    "implementation": "cpython",
    "architecture": "x86_64",
    "bits": 64,
    "free_threaded": False,
    "libc": "glibc 2.36",
}


def python(path: Path, version: str, **more: Any) -> str:
    """A Python that answers so."""
    said = {**USUAL, "version": [int(part) for part in version.split(".")], **more}
    return script(path, f"echo '{json.dumps(said)}'")


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_systems_python_comes_before_a_newer_one(tmp_path: Path) -> None:
    system = python(tmp_path / "python3", "3.11.2")
    python(tmp_path / "python3.13", "3.13.1")
    found = find("", PYTHONS, run, str(tmp_path))
    assert (found.path, found.version, found.python) == (system, "3.11.2", "3.11")
    assert (found.architecture, found.glibc) == ("x86_64", (2, 36))


def test_where_it_is_too_old_the_newest_that_there_is_a_lock_for(tmp_path: Path) -> None:
    python(tmp_path / "python3", "3.9.18")
    python(tmp_path / "python3.9", "3.9.18")
    python(tmp_path / "python3.11", "3.11.5")
    newest = python(tmp_path / "python3.12", "3.12.1")
    python(tmp_path / "python3.15", "3.15.0")
    assert find("", PYTHONS, run, str(tmp_path)).path == newest


def test_the_named_one_and_no_other(tmp_path: Path) -> None:
    python(tmp_path / "python3", "3.11.2")
    named = python(tmp_path / "mine", "3.14.0")
    assert find(named, PYTHONS, run, str(tmp_path)).path == named
    old = python(tmp_path / "old", "3.9.1")
    with pytest.raises(NoInterpreter) as caught:
        find(old, PYTHONS, run, str(tmp_path))
    said = "it is Python 3.9, and there are locks for 3.10, 3.11, 3.12, 3.13, 3.14"
    assert str(caught.value).startswith(f"agent_runtime_python_interpreter is {old}: {said}. Install a Python")


def test_without_any_it_says_what_it_looked_at(tmp_path: Path) -> None:
    with pytest.raises(NoInterpreter, match=rf"no Python here can run the agents \({tmp_path}/python3: it is not ther"):
        find("", PYTHONS, run, str(tmp_path))
    python(tmp_path / "python3", "3.9.18")
    with pytest.raises(NoInterpreter, match=r"python3: it is Python 3.9.*agent_runtime_python_interpreter"):
        find("", PYTHONS, run, str(tmp_path))


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"implementation": "pypy"}, "pypy, 64 bits"),
        ({"bits": 32}, "cpython, 32 bits"),
        ({"free_threaded": True}, "cpython, 64 bits, free-threaded"),
    ],
)
def test_a_python_that_wheels_are_not_made_for_is_refused(tmp_path: Path, more: dict[str, Any], kind: str) -> None:
    named = python(tmp_path / "p", "3.13.0", **more)
    with pytest.raises(NoInterpreter, match=rf"another kind than the packages are made for \({kind}\)"):
        find(named, PYTHONS, run)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 3", r"it is no Python 3 \(exit status 3: \)"),
        ("echo hello", r"it is no Python 3 \(exit status 0: hello\)"),
        ("echo 3", "it is no Python 3"),
        ("echo '{}'", "it is no Python 3"),
        ("echo 'what is -E?' >&2; exit 1", r"\(exit status 1: what is -E\?\)"),
    ],
)
def test_what_is_no_python_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(NoInterpreter, match=said):
        find(script(tmp_path / "p", body), PYTHONS, run)


def test_a_relative_or_unusable_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").touch()
    for named, said in (("python3", "not an absolute path"), (str(tmp_path / "p"), "it can't be run")):
        with pytest.raises(NoInterpreter, match=said):
            find(named, PYTHONS, run)


def test_another_c_library_has_no_glibc(tmp_path: Path) -> None:
    assert find(python(tmp_path / "p", "3.13.0", libc=""), PYTHONS, run).glibc == ()


def test_a_real_python_answers() -> None:
    found = find(sys.executable, (PYTHON,), run)
    assert (found.python, found.architecture) == (PYTHON, platform.machine())
    assert found.version == platform.python_version()
    assert found.glibc >= (2, 17)
