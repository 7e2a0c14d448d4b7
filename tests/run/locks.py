# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Renews the locks: tests/requirements.lock, one for every Python that the commands run on, and those of the agents."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from . import agent_locks, environment, packages
from .places import Places
from .process import run
from .report import CannotGoOn, Report


def refresh(places: Places, report: Report) -> None:
    """Resolve anew, with the newest versions that requirements.in allows. Needs uv, which is fetched for this."""
    logs = places.make_logs()
    tests = places.checkout / "tests"
    interpreter = environment.find_interpreter() or environment.install_interpreter(logs / "python.log")
    with tempfile.TemporaryDirectory(dir=logs) as scratch, report.setting_up("requirements.lock") as notes:
        made = Path(scratch) / "requirements.lock"
        uv = Path(scratch) / "uv"
        steps: list[list[str | Path]] = [
            [interpreter.command, "-m", "venv", uv],
            [uv / "bin" / "python", "-m", "pip", "install", "--upgrade", "uv", "pip"],
            [uv / "bin" / "uv", "pip", "compile", *options(), "requirements.in", "--output-file", made],
        ]
        for step in steps:
            log = logs / f"{Path(step[0]).name}.log"
            if run(step, log, env=_without_extra_sources(), cwd=tests) != 0:
                raise CannotGoOn(f"The lock can't be renewed:\n{packages.last_lines(log, 15)}")
        text = made.read_text()
        if re.search(r"^\s*--(extra-)?index-url|^\s*--find-links|://", text, re.MULTILINE):
            raise CannotGoOn("The new lock names where packages come from; that is for each machine's pip to know.")
        (tests / "requirements.lock").write_text(text)
        notes.append(f"{len(re.findall(r'^[a-z]', text, re.MULTILINE))} packages")
        agents = places.checkout / agent_locks.AGENTS
        made_for = agent_locks.refresh(agents, uv / "bin" / "uv", uv / "bin" / "python", _without_extra_sources())
        notes.append(f"{made_for} locks of agents")


def options() -> list[str]:
    """How uv resolves: for all Pythons from the oldest of ours, hashes of every file, nothing about this machine."""
    return [
        *("--universal", "--python-version", environment.VERSIONS[-1], "--upgrade"),
        *("--generate-hashes", "--only-binary", ":all:"),
        *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
    ]


def _without_extra_sources() -> dict[str, str]:
    """A local wheel has hashes that nobody else's has."""
    return {name: value for name, value in os.environ.items() if name not in ("PIP_FIND_LINKS", "UV_FIND_LINKS")}
