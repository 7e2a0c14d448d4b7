# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Small agents' distributions and trees, for tests of the road that the real ones take."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import Archive, archive_for
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import Target

PYTHON = "{}.{}".format(*sys.version_info[:2])
HERE = Target(PYTHON, platform.machine(), (f"manylinux_2_34_{platform.machine()}",))
MAIN = 'if __name__ == "__main__":\n    print("this is", __name__)\n'


def distribution(place: Path, code: str = "", agents: Sequence[str] = ("echo", "proxy")) -> Path:
    """Sources as in files/agents; `code` goes into the first agent."""
    package = place / "colocation"
    (package / "common").mkdir(parents=True)
    (place / "locks").mkdir()
    (place / "locks" / HERE.lock).write_text("made-up==1\n")
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (package / "common" / "__init__.py").touch()
    for agent in agents:
        (package / agent).mkdir()
        (package / agent / "__init__.py").write_text("from madeup import value\n")
        (package / agent / "__main__.py").write_text(MAIN)
    with (package / agents[0] / "__init__.py").open("a") as file:
        file.write(code)
    return place


def fill(tree: Path) -> None:
    """What pip would bring."""
    (tree / "madeup").mkdir()
    (tree / "madeup" / "__init__.py").write_text("value = 1\n")
    (tree / "made_up-1.dist-info").mkdir()
    (tree / "made_up-1.dist-info" / "METADATA").write_text("Name: made-up\n")
    (tree / "made_up-1.dist-info" / "RECORD").write_text("varies\n")
    (tree / "bin").mkdir()
    (tree / "bin" / "made-up").write_text(f"#!{sys.executable}\n")


def archive(place: Path, code: str = "") -> Archive:
    """A packed release of a small distribution."""
    return archive_for(distribution(place / "agents", code), HERE, place / "cache", fill)


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr
