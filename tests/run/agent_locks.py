# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Renews the agents' locks: one for each Python and architecture of files/agents/targets.yml, free of markers.

pip judges environment markers by the interpreter that runs it, so a lock with markers would give a cross-built tree the
wrong packages. uv resolves for a machine that is not here; then pip is asked which wheel of each package it would take
there, and that wheel's hash alone is written down: the same lock always makes the same tree.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .report import CannotGoOn

AGENTS = Path("files", "agents")


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of node: its Python, its architecture, and what pip must be told about it."""

    python: str
    architecture: str
    platforms: tuple[str, ...]

    @property
    def lock(self) -> str:
        """The name of its lock."""
        return f"python{self.python}-{self.architecture}.txt"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package's file that pip takes for a target."""

    name: str
    version: str
    file: str
    sha256: str
    requires: tuple[str, ...]

    @property
    def line(self) -> str:
        """Its line in a lock."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}  # {self.file}"


def targets(text: str) -> tuple[Target, ...]:
    """All targets of targets.yml; read without a YAML library, which the commands do without until they are set up."""
    pythons = re.findall(r'"([0-9.]+)"', text.partition("pythons:")[2].partition("]")[0])
    platforms: dict[str, list[str]] = {}
    for line in text.partition("platforms:")[2].splitlines():
        if found := re.fullmatch(r"  (\w+):", line):
            platforms[found[1]] = []
        elif found := re.fullmatch(r"    - (\w+)", line):
            platforms[list(platforms)[-1]].append(found[1])
    return tuple(Target(python, name, tuple(tags)) for python in pythons for name, tags in platforms.items())


def refresh(agents: Path, uv: Path, python: Path, environ: Mapping[str, str]) -> int:
    """Write all locks anew; how many."""
    wanted = targets((agents / "targets.yml").read_text())
    locks = {target.lock: _lock(agents, target, uv, python, environ) for target in wanted}
    directory = agents / "locks"
    directory.mkdir(exist_ok=True)
    for old in directory.glob("*.txt"):
        old.unlink()
    for name, text in locks.items():
        (directory / name).write_text(text)
    return len(locks)


def _lock(agents: Path, target: Target, uv: Path, python: Path, environ: Mapping[str, str]) -> str:
    pins = _answer([uv, *resolve(target), "pyproject.toml"], environ, agents)
    wheels = choose([python, "-m", "pip"], target, pins.splitlines(), environ, agents)
    return "".join(f"{wheel.line}\n" for wheel in sorted(wheels, key=lambda wheel: wheel.name))


def resolve(target: Target) -> list[str]:
    """uv's command for the versions on a target."""
    where = ("--python-version", target.python, "--python-platform", _platform_of_uv(target))
    shape = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-python-downloads")
    return ["pip", "compile", "--quiet", "--upgrade", "--only-binary", ":all:", *where, *shape]


def _platform_of_uv(target: Target) -> str:
    return f"{target.architecture}-{target.platforms[0].removesuffix('_' + target.architecture)}"


def pip_options(target: Target) -> list[str]:
    """What makes pip choose for a target instead of for the machine that it runs on."""
    platforms = [option for platform in target.platforms for option in ("--platform", platform)]
    fixed = ("--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", target.python)
    return [*fixed, *platforms]


def choose(
    pip: Sequence[str | Path], target: Target, requirements: Sequence[str], environ: Mapping[str, str], where: Path
) -> tuple[Wheel, ...]:
    """The wheels that pip would take for these requirements, each a line of a requirements file."""
    listed = where / f".{target.lock}"
    listed.write_text("\n".join(requirements) + "\n")
    what = ("--dry-run", "--ignore-installed", "--quiet", "--report", "-", "--target", "nowhere", "-r", listed)
    try:
        report = _answer([*pip, "install", *pip_options(target), *what], environ, where)
    finally:
        listed.unlink()
    return tuple(_wheel(item) for item in json.loads(report)["install"])


def _wheel(item: Mapping[str, Any]) -> Wheel:
    metadata, download = item["metadata"], item["download_info"]
    name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
    file = download["url"].split("#")[0].rpartition("/")[2]
    hashes = download["archive_info"]["hashes"]
    return Wheel(name, metadata["version"], file, hashes["sha256"], tuple(metadata.get("requires_dist", ())))


def _answer(command: Sequence[str | Path], environ: Mapping[str, str], where: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=dict(environ), cwd=where, check=False)
    if done.returncode != 0:
        said = os.linesep.join(done.stderr.strip().splitlines()[-15:])
        raise CannotGoOn(f"The agents' locks can't be renewed:\n{said}")
    return done.stdout
