# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which kinds of nodes the agents are packed for, and what pip must be told to choose wheels for one of them.

The kinds stand in files/agents/targets.yml, and each has a lock beside it. Knows nothing of how a tree is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")


class NoTarget(Exception):
    """There is no lock for such a node; the text lists what there is."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of node."""

    python: str  # minor, as "3.13"
    architecture: str
    platforms: tuple[str, ...]  # wheels' tags that it takes, the newest glibc first

    @property
    def name(self) -> str:
        return f"python{self.python}-{self.architecture}"

    @property
    def lock(self) -> str:
        """The name of its lock file."""
        return f"{self.name}.txt"

    @property
    def glibc(self) -> tuple[int, int]:
        """The oldest C library that all its wheels run with."""
        found = GLIBC.match(self.platforms[0])
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def pip_options(self) -> list[str]:
        """pip derives no tag from another, so every one is named; and nothing is built from source."""
        platforms = [option for platform in self.platforms for option in ("--platform", platform)]
        fixed = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", self.python]
        return [*fixed, *platforms]


def parse_targets(document: Any) -> tuple[Target, ...]:
    """The targets of targets.yml, as a YAML library read it; ValueError where it is something else."""
    try:
        pythons, platforms = list(document["pythons"]), dict(document["platforms"])
        targets = tuple(Target(str(python), name, tuple(platforms[name])) for python in pythons for name in platforms)
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"not a list of targets: {problem!r}") from problem
    if not all(target.platforms for target in targets):
        raise ValueError("a target without platforms")
    return targets


def choose_target(targets: Iterable[Target], python: str, architecture: str) -> Target:
    """The one for a node."""
    known = list(targets)
    for target in known:
        if (target.python, target.architecture) == (python, architecture):
            return target
    pythons = ", ".join(dict.fromkeys(target.python for target in known))
    architectures = ", ".join(dict.fromkeys(target.architecture for target in known))
    raise NoTarget(
        f"the agents have no lock for Python {python} on {architecture}; there are locks for Python {pythons}, "
        f"each on {architectures}"
    )
