# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which Python of a node runs the agents: the named one, else the system's, else the newest that there is a lock for.

The system's `python3` comes before a newer `python3.NN`, for it is kept as long as the distribution is. It is named as
it stands, not as what it leads to: after an upgrade of the distribution it is still there, and `colocation.start` can
say what is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

SYSTEM = "/usr/bin"
PROBE = """
import json, os, platform, struct, sys, sysconfig
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, ValueError):
    libc = ""
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "architecture": platform.machine(),
    "bits": struct.calcsize("P") * 8,
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "libc": libc or "",
}))
"""
ADVICE = (
    "Install a Python that there is a lock for (RHEL-like 9: python3.11 or python3.12), and name it with "
    "agent_runtime_python_interpreter if it is not in /usr/bin"
)


class NoInterpreter(Exception):
    """The text says what was looked at, what is wrong with it, and what to do."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can run the agents."""

    path: str
    version: str
    python: str  # the minor
    architecture: str
    glibc: tuple[int, ...]  # () where the C library is another one


def find(named: str, pythons: Sequence[str], run: Run, system: str = SYSTEM) -> Interpreter:
    """The Python of this node that runs the agents; `pythons` are the minors that there is a lock for."""
    if named:
        found, problem = ask(named, pythons, run)
        if found is None:
            raise NoInterpreter(f"agent_runtime_python_interpreter is {named}: {problem}. {ADVICE}")
        return found
    problems = []
    for path in candidates(pythons, system):
        found, problem = ask(path, pythons, run)
        if found is not None:
            return found
        problems.append(f"{path}: {problem}")
    raise NoInterpreter(f"no Python here can run the agents ({'; '.join(problems)}). {ADVICE}")


def candidates(pythons: Iterable[str], system: str) -> list[str]:
    newest = sorted(pythons, key=lambda minor: [int(part) for part in minor.split(".")], reverse=True)
    others = [os.path.join(system, f"python{minor}") for minor in newest]
    return [os.path.join(system, "python3"), *(path for path in others if os.path.exists(path))]


def ask(path: str, pythons: Sequence[str], run: Run) -> tuple[Interpreter | None, str]:
    """What a Python says of itself, or why it can't run the agents."""
    if not os.path.isabs(path):
        return None, "not an absolute path"
    if not os.access(path, os.X_OK):
        return None, "it is not there" if not os.path.exists(path) else "it can't be run"
    code, out, err = run([path, "-Es", "-B", "-c", PROBE])
    try:
        said = json.loads(out)
        version = tuple(int(part) for part in said["version"])
        libc = str(said["libc"])
    except (ValueError, KeyError, TypeError):
        return None, f"it is no Python 3 (exit status {code}: {' '.join((err or out).split())[-200:]})"
    python = f"{version[0]}.{version[1]}"
    if python not in pythons:
        return None, f"it is Python {python}, and there are locks for {', '.join(pythons)}"
    if said["implementation"] != "cpython" or said["free_threaded"] or said["bits"] != 64:
        kind = f"{said['implementation']}, {said['bits']} bits{', free-threaded' if said['free_threaded'] else ''}"
        return None, f"it is a Python of another kind than the packages are made for ({kind})"
    glibc = tuple(int(part) for part in libc.removeprefix("glibc ").split(".")) if libc.startswith("glibc ") else ()
    full = ".".join(str(part) for part in version)
    return Interpreter(path, full, python, str(said["architecture"]), glibc), ""
