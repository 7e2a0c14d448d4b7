# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""`colocation.start` in made releases, each run as a unit runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import colocation

RUNNING = "{}.{}".format(*sys.version_info[:2])
AGENT = "import os, sys\nprint('echo', sys.argv[1:], __name__)\nsys.exit(5)\n"
NOT_HERE = "3.99"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Our package with one small agent."""
    made = tmp_path / "0.1.0-abcdef012345"
    source = Path(colocation.__file__).parent
    shutil.copytree(source / "common", made / "colocation" / "common")
    for name in ("__init__.py", "start.py"):
        shutil.copy(source / name, made / "colocation" / name)
    (made / "colocation" / "echo").mkdir()
    (made / "colocation" / "echo" / "__init__.py").touch()
    (made / "colocation" / "echo" / "__main__.py").write_text(AGENT)
    return made


def made_for(release: Path, python: str) -> None:
    (release / "RELEASE.json").write_text(json.dumps({"id": release.name, "python": python}))


def start(release: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    command = [sys.executable, "-Es", "-m", "colocation.start", *arguments]
    done = subprocess.run(command, cwd=release, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_agent_runs_as_if_it_had_been_called(release: Path) -> None:
    made_for(release, RUNNING)
    assert start(release, "echo", "--config", "a b") == (5, "echo ['--config', 'a b'] __main__\n", "")


def test_a_checkout_has_no_release_and_runs(release: Path) -> None:
    assert start(release, "echo")[0] == 5


def test_another_python_is_one_clear_line(release: Path) -> None:
    made_for(release, NOT_HERE)
    status, out, err = start(release, "echo", JOURNAL_STREAM="")
    reason = f"{release} is made for Python {NOT_HERE} and {sys.executable} is {RUNNING}"
    assert (status, out) == (78, "")
    assert err == f"{reason}, as after an upgrade of the distribution; run the playbook again\n"


def test_a_kept_python_takes_over(release: Path, tmp_path: Path) -> None:
    made_for(release, NOT_HERE)
    other = tmp_path / "kept" / f"python{NOT_HERE}"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\necho "$0 $* in $PWD"\n')
    call = "import sys; from colocation import start; start.main(sys.argv[3:], sys.argv[1], [sys.argv[2]])"
    command = [sys.executable, "-c", call, release, other.parent, "echo", "--config", "c"]
    refused = subprocess.run(command, cwd=release, capture_output=True, text=True, check=True)
    assert refused.stdout == "", "it may not be run"
    other.chmod(0o755)
    ran = subprocess.run(command, cwd=release, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{other} -Es -m colocation.echo --config c in {release}\n"


@pytest.mark.parametrize("arguments", [(), ("nothing",), ("common",)])
def test_what_is_no_agent_is_said(release: Path, arguments: tuple[str, ...]) -> None:
    made_for(release, RUNNING)
    status, out, err = start(release, *arguments)
    assert (status, out) == (78, "")
    assert f"no agent {' '.join(arguments)!r} in {release}" in err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id": 1', "null"])
def test_a_broken_record_of_the_release_is_said(release: Path, content: str) -> None:
    (release / "RELEASE.json").write_text(content)
    status, _out, err = start(release, "echo")
    assert status == 78
    assert err.startswith(f"{release}/RELEASE.json can't be read (")
    assert err.count("\n") == 1


def test_it_loads_nothing_compiled_of_ours(release: Path) -> None:
    """Whatever Python runs it must come so far as to say what is wrong."""
    code = "import sys, colocation.start; print(*sorted(m for m in sys.modules if m.split('.')[0] in sys.argv[1:]))"
    named = ["colocation", "grpc", "google", "yaml"]
    done = subprocess.run(
        [sys.executable, "-Es", "-c", code, *named], cwd=release, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["colocation", "colocation.common", "colocation.common.journal", "colocation.start"]


def test_the_cri_proxy_runs_on_another_python_and_says_so(release: Path) -> None:
    made_for(release, NOT_HERE)
    shutil.copytree(release / "colocation/echo", release / "colocation/cri_proxy")
    status, out, err = start(release, "cri_proxy", "--config", "x", JOURNAL_STREAM="")
    assert (status, out) == (5, "echo ['--config', 'x'] __main__\n")
    assert "run the playbook again. It runs on this Python meanwhile." in err


def test_a_cri_proxy_that_can_not_run_there_gives_up_as_with_a_bad_configuration(release: Path) -> None:
    made_for(release, NOT_HERE)
    shutil.copytree(release / "colocation/echo", release / "colocation/cri_proxy")
    (release / "colocation/cri_proxy/__main__.py").write_text("import compiled_for_another_python\n")
    status, _out, err = start(release, "cri_proxy")
    assert status == 78 and "It can't: No module named 'compiled_for_another_python'" in err
