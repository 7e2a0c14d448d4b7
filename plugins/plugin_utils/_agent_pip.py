# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""pip on the controller: which one, how it is called to fill a tree, and what its failures mean.

Everything that the user configured for pip (index, proxy, certificates) holds; what would send packages elsewhere than
into the tree does not. uv is no stand-in: it has settings of its own, and would miss a mirror that is set for pip.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import Target

LIMIT = 1800  # seconds; pip itself gives up much earlier on a dead index
# Settings that would put packages elsewhere or choose others.
WHERE = ("TARGET", "PREFIX", "ROOT", "PYTHON", "DRY_RUN", "REPORT", "LOG", "QUIET")
WHAT = ("CONSTRAINT", "REQUIREMENT", "EDITABLE", "UPGRADE", "NO_BINARY", "ONLY_BINARY")
FOR_WHOM = ("PLATFORM", "ABI", "IMPLEMENTATION", "PYTHON_VERSION")
DROPPED = frozenset(f"PIP_{name}" for name in WHERE + WHAT + FOR_WHOM)
OF_THE_INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX")
SETTLED = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
}
UNREACHABLE = ("connection broken", "NewConnectionError", "ConnectTimeout", "Max retries", "SSLError", "ProxyError")
NO_PIP = (
    "the controller has no pip, which fetches the agents' packages: {python} has none, nor ensurepip, and there is no "
    "pip3 in the path. Install it there (python3-pip, or python3-venv on Debian), or name one with "
    "agent_runtime_pip. Or let another controller fill the cache, and copy it here"
)


class PipFailed(Exception):
    """The text says what was wanted, what pip said, and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where packages come from."""

    index: str = ""  # "" is what pip is configured with
    wheel_dir: str = ""  # then nothing else is asked

    def options(self) -> list[str]:
        return ["--no-index", "--find-links", self.wheel_dir] if self.wheel_dir else []

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """pip's environment; the index goes in here, for it may hold a password and command lines can be read."""
        kept = {name: value for name, value in environ.items() if name not in DROPPED} | SETTLED
        if self.wheel_dir:
            kept = {name: value for name, value in kept.items() if name not in OF_THE_INDEX}
            kept["PIP_CONFIG_FILE"] = os.devnull
        elif self.index:
            kept["PIP_INDEX_URL"] = self.index
        return kept

    def __str__(self) -> str:
        if self.wheel_dir:
            return f"the wheel directory {self.wheel_dir}"
        return "the index of agent_runtime_index" if self.index else "the index that pip is configured with"


def find_pip(named: str = "", python: str = sys.executable) -> list[str]:
    """The command: the named one, that of Ansible's Python, the one that ensurepip brings, or the path's."""
    if named:
        if shutil.which(named) is None:
            raise PipFailed(f"agent_runtime_pip is {named}, which is no program on the controller")
        return [named, "-m", "pip"] if os.path.basename(named).startswith("python") else [named]
    if importlib.util.find_spec("pip") is not None:
        return [python, "-m", "pip"]
    if wheel := bundled_pip():
        return [python, os.path.join(wheel, "pip")]  # a wheel is a zip that Python runs from
    if found := shutil.which("pip3") or shutil.which("pip"):
        return [found]
    raise PipFailed(NO_PIP.format(python=python))


def bundled_pip() -> str:
    """The pip that ensurepip would install, or "" where the distribution left it out."""
    spec = importlib.util.find_spec("ensurepip")
    inside = [Path(place, "_bundled") for place in (spec.submodule_search_locations or ())] if spec else []
    outside = sysconfig.get_config_var("WHEEL_PKG_DIR")
    places = [Path(outside), *inside] if outside else inside
    return next((str(wheel) for place in places for wheel in sorted(place.glob("pip-*.whl"), reverse=True)), "")


def fill(
    tree: Path, target: Target, lock: Path, pip: Sequence[str], source: Source, environ: Mapping[str, str]
) -> None:
    """Put the packages of a lock into a tree."""
    where = ["--target", str(tree), "--no-compile", "--require-hashes", "--progress-bar", "off"]
    command = [*pip, "install", *target.pip_options, *source.options(), *where, "-r", str(lock)]
    try:
        done = subprocess.run(
            command,
            cwd=tree.parent,
            env=source.environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        raise PipFailed(f"pip was not done after {LIMIT} s with {source}") from problem
    except OSError as problem:
        raise PipFailed(f"{pip[0]} can't be run: {problem.strerror}") from problem
    if done.returncode != 0:
        raise PipFailed(explain(done.stdout, target, source))


def explain(said: str, target: Target, source: Source) -> str:
    """What a failed pip means."""
    said = re.sub(r"://[^/@\s]+@", "://****@", said)  # pip hides passwords too, but not in every version and place
    what = f"the packages of {target.lock} can't be had from {source}"
    if "DO NOT MATCH THE HASHES" in said:
        wrong = _after(said, "DO NOT MATCH THE HASHES")
        return f"{what}: {wrong}. The file there is not the one that the lock names; it may have been tampered with"
    if "No space left on device" in said:
        return f"{what}: the controller's disk is full, where agent_runtime_cache_dir, pip's cache or TMPDIR is"
    if any(word in said for word in UNREACHABLE):
        advice = "agent_runtime_index names another one, and agent_runtime_wheel_dir a directory of wheels"
        return f"{what}: it can't be reached ({_reason(said)}); {advice}"
    if lacking := re.search(r"No matching distribution found for (\S+)", said):
        return f"{what}: it has no file of {lacking[1]} for {target.name}"
    return f"{what}; pip said: {' / '.join(said.strip().splitlines()[-5:])}"


def _after(said: str, mark: str) -> str:
    """The words after the line with a mark, on one line."""
    return " ".join(said.partition(mark)[2].partition("\n")[2].split())


def _reason(said: str) -> str:
    """Why a connection failed, out of the many words that pip has for it."""
    found = re.findall(r"(\[Errno -?\d+\] [^'\"\n)]*|certificate verify failed[^'\"\n)]*|timed out)", said)
    return str(found[-1]).strip() if found else "pip lost the connection"
