# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command line that kubelet.service would start: its unit and drop-ins as systemd lays them over each other.

Asked where no kubelet runs. Of systemd's syntax only what kubelets' units use is known: variables, no specifiers.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under

UNIT = "kubelet.service"
UNIT_PLACES = (  # the first that has a file of a name beats the others
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
SHELLS = ("sh", "bash", "dash")
SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of every unit that sets no other


def unit_arguments(root: str) -> list[str]:
    """The words of its command line after the program, with the variables of its environment; none without a unit."""
    command, variables = _read(root)
    words = [part for word in _words(command) for part in _expanded(word, variables)]
    if words[1:2] == ["-c"] and os.path.basename(words[0]) in SHELLS:
        inner = (part for word in words[2:3] for part in _words(word) if part != "exec")
        words = [part for word in inner for part in _expanded(word, variables)]
    return words[1:]


def unit_environment(root: str) -> dict[str, str]:
    """The environment that it would have."""
    return {"PATH": SYSTEMD_PATH, **_read(root)[1]}


def _read(root: str) -> tuple[str, dict[str, str]]:
    """Its command line as it stands there, and its variables."""
    command, variables, files = "", dict[str, str](), list[str]()
    for name, value in _settings(root):
        if name == "ExecStart":
            command = value
        elif name == "Environment":
            variables = {**variables, **dict(_pairs(_words(value)))} if value else {}
        elif name == "EnvironmentFile":
            files = [*files, value.removeprefix("-")] if value else []
    for path in (each for pattern in files for each in _matching(root, pattern)):
        variables.update((name, _unquoted(value)) for name, value in _pairs(_lines(read_text(root, path))))
    return command, variables


def _matching(root: str, pattern: str) -> list[str]:
    """The files that a path with wildcards means, as systemd reads them."""
    return ["/" + os.path.relpath(path, root) for path in sorted(glob.glob(under(glob.escape(root), pattern)))]


def _settings(root: str) -> Iterator[tuple[str, str]]:
    for path in _files(root):
        yield from _pairs(_lines(read_text(root, path)))


def _files(root: str) -> Iterator[str]:
    """The unit (a mask over it is empty), then its drop-ins in the order of their names."""
    units = (os.path.join(place, UNIT) for place in UNIT_PLACES)
    yield from [path for path in units if read_text(root, path).strip()][:1]
    drop_ins: dict[str, str] = {}
    for place in UNIT_PLACES:
        for path in drop_ins_of(root, place):
            drop_ins.setdefault(os.path.basename(path), path)
    yield from (path for _name, path in sorted(drop_ins.items()))


def drop_ins_of(root: str, place: str) -> list[str]:
    """The unit's drop-ins in one of the places, in the order of their names."""
    folder = os.path.join(place, f"{UNIT}.d")
    names = sorted(os.listdir(under(root, folder))) if os.path.isdir(under(root, folder)) else []
    return [os.path.join(folder, name) for name in names if name.endswith(".conf")]


def _lines(text: str) -> list[str]:
    """Without comments; what a backslash breaks is one line."""
    kept = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    return re.sub(r"\\\n", " ", "\n".join(kept)).splitlines()


def _pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if equals:
            yield name.strip(), value.strip()


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _expanded(word: str, variables: Mapping[str, str]) -> list[str]:
    """A variable that stands alone is split at spaces; one in braces stays in its word."""
    alone = re.fullmatch(r"\$(\w+)", word)
    if alone:
        return _words(variables.get(alone.group(1), ""))
    return [re.sub(r"\$\{(\w+)\}", lambda found: variables.get(found.group(1), ""), word)]
