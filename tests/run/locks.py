# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Renews the locks: those of the tools in tests/, each one for every Python that it is for, and those of the agents."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import agent_locks, environment, packages
from .environment import Recipe
from .places import Places
from .process import run
from .report import CannotGoOn, Report


def refresh(places: Places, report: Report) -> None:
    """Resolve anew, with the newest versions that requirements.in allows. Needs uv, which is fetched for this."""
    logs = places.make_logs()
    tests = places.checkout / "tests"
    interpreter = environment.find_interpreter() or environment.install_interpreter(logs / "python.log")
    with tempfile.TemporaryDirectory(dir=logs) as scratch:
        uv = Path(scratch) / "uv" / "bin"
        with report.setting_up("uv"):
            _step([interpreter.command, "-m", "venv", uv.parent], logs, tests)
            _step([uv / "python", "-m", "pip", "install", "--upgrade", "uv", "pip"], logs, tests)
        for recipe in (environment.TOOLS, environment.NEWEST_CORE):
            with report.setting_up(recipe.lock) as notes:
                notes.append(f"{resolve(recipe, uv / 'uv', tests, logs)} packages")
        with report.setting_up("locks of the agents") as notes:
            agents = places.checkout / agent_locks.AGENTS
            made_for = agent_locks.refresh(agents, uv / "uv", uv / "python", _without_extra_sources())
            notes.append(f"{made_for} locks")


def resolve(recipe: Recipe, uv: Path, tests: Path, logs: Path) -> int:
    """Write one lock anew; how many packages it has."""
    made = logs / recipe.lock
    _step([uv, "pip", "compile", *options(recipe), recipe.wishes, "--output-file", made], logs, tests)
    text = made.read_text()
    if re.search(r"^\s*--(extra-)?index-url|^\s*--find-links|://", text, re.MULTILINE):
        raise CannotGoOn("The new lock names where packages come from; that is for each machine's pip to know.")
    (tests / recipe.lock).write_text(text)
    return len(re.findall(r"^[a-z]", text, re.MULTILINE))


def _step(command: Sequence[str | Path], logs: Path, tests: Path) -> None:
    log = logs / f"{Path(command[0]).name}.log"
    if run(command, log, env=_without_extra_sources(), cwd=tests) != 0:
        raise CannotGoOn(f"The locks can't be renewed:\n{packages.last_lines(log, 15)}")


def options(recipe: Recipe) -> list[str]:
    """How uv resolves: for all Pythons from the oldest, hashes of every file, nothing about this machine."""
    return [
        *("--universal", "--python-version", recipe.pythons[-1], "--upgrade"),
        *("--generate-hashes", "--only-binary", ":all:"),
        *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
    ]


def _without_extra_sources() -> dict[str, str]:
    """A local wheel has hashes that nobody else's has."""
    return {name: value for name, value in os.environ.items() if name not in ("PIP_FIND_LINKS", "UV_FIND_LINKS")}
