# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The virtual environments of the tools: found by what they were made from, made once, never half."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import packages
from .places import locked
from .process import run
from .report import CannotGoOn

PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
WHEELS_ONLY = "--only-binary=:all:"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment is made from: NAME.in and NAME.lock in tests/, and Pythons that it runs on, newest first."""

    name: str
    pythons: tuple[str, ...]

    @property
    def wishes(self) -> str:
        """The file that names what is wanted."""
        return f"{self.name}.in"

    @property
    def lock(self) -> str:
        """The file that names all that comes of it, with versions and hashes."""
        return f"{self.name}.lock"


TOOLS = Recipe("requirements", ("3.13", "3.12", "3.11"))
NEWEST_CORE = Recipe("newest-core", ("3.14", "3.13", "3.12"))


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can make virtual environments."""

    command: str
    version: str


@dataclass(frozen=True, slots=True)
class Tools:
    """A finished virtual environment."""

    directory: Path
    version: str
    core: str  # version of ansible-core

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def command(self, name: str) -> Path:
        """One of its commands."""
        return self.directory / "bin" / name

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The caller's environment with these tools first."""
        path = f"{self.directory / 'bin'}:{environ.get('PATH', packages.SEARCH_PATH)}"
        kept = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.directory)}


def find_interpreter(versions: Sequence[str] = TOOLS.pythons) -> Interpreter | None:
    """The machine's own python3 where it serves, else the newest that does."""
    for command in ("python3", *(f"python{version}" for version in versions)):
        path = shutil.which(command)
        version = probe(path) if path else None
        if path and version and version in versions:
            return Interpreter(path, version)
    return None


def probe(path: str) -> str | None:
    """The version of a Python that can make virtual environments, None for one that can't."""
    env = {**os.environ, "PYTHONPATH": ""}
    answer = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, env=env, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def install_interpreter(log: Path) -> Interpreter:
    """Install the newest Python that apt offers and the tools run on."""
    package = next((name for name in _venv_packages() if packages.offered(name)), None)
    if package is None:
        packages.refresh_lists(log)
        package = next((name for name in _venv_packages() if packages.offered(name)), None)
    if package is None:
        raise CannotGoOn(
            f"The tools need Python {TOOLS.pythons[-1]} to {TOOLS.pythons[0]} with venv. This machine has none, and "
            f"its package lists offer none of: {', '.join(_venv_packages())}.\nRun this as root with a network, add "
            "an apt source that has one of them, or put such a Python on the PATH."
        )
    packages.apt_install([package], log)
    found = find_interpreter()
    if found is None:
        raise CannotGoOn(f"{package} is installed, but no such Python can import ensurepip.")
    return found


def _venv_packages() -> list[str]:
    return [f"python{version}-venv" for version in TOOLS.pythons]


def directory_of(cache: Path, lock: bytes, version: str) -> Path:
    """Where the environment for this lock file and Python belongs."""
    return cache / "venv" / f"{version}-{hashlib.sha256(lock).hexdigest()[:12]}"


def core_in(lock: str) -> str:
    """The version of ansible-core that a lock names."""
    found = re.search(r"^ansible-core==(\S+)", lock, re.MULTILINE)
    return found[1] if found else ""


def is_complete(directory: Path) -> bool:
    """Whether an environment was made to the end, and its interpreter still starts (the system's may have gone)."""
    if not (directory / ".complete").is_file():
        return False
    python = directory / "bin" / "python"
    return python.exists() and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def make(interpreter: Interpreter, lock_file: Path, cache: Path, logs: Path) -> tuple[Tools, bool]:
    """The environment for a lock file, and whether it had to be made.

    It is made where it will stand, since an environment can't be moved; the marker comes last, and who finds none
    starts over. Two runs at once wait for each other.
    """
    lock = lock_file.read_bytes()
    directory = directory_of(cache, lock, interpreter.version)
    tools = Tools(directory, interpreter.version, core_in(lock.decode()))
    with locked(directory.with_name(directory.name + ".lock")):
        made = not is_complete(directory)
        if made:
            _fill(interpreter, directory, lock_file, logs)
        (directory / ".complete").touch()
    return tools, made


def _fill(interpreter: Interpreter, directory: Path, lock_file: Path, logs: Path) -> None:
    log = logs / "venv.log"
    cwd = directory.parent
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if run([interpreter.command, "-m", "venv", "--clear", directory], log, env=env, cwd=cwd) != 0:
        raise CannotGoOn(f"{interpreter.command} can't make a virtual environment:\n{packages.last_lines(log)}")
    log = logs / "pip.log"
    pip: list[str | Path] = [directory / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    if run([*pip, "install", "--require-hashes", WHEELS_ONLY, "-r", lock_file], log, env=env, cwd=cwd) != 0:
        raise CannotGoOn(
            f"pip can't install what {lock_file.name} lists:\n{packages.last_lines(log)}\nIs there a way to a Python "
            "package index? A mirror, proxy or certificate is set as for any pip: PIP_INDEX_URL, PIP_PROXY, PIP_CERT "
            "or a pip.conf. The whole story is in the log."
        )
