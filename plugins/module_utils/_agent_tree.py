# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a tree of the agents is, as hashes: the same on the controller that makes it and on the node that runs it.

A tree is its files' names and contents. Owners, modes, times and the order in which a file system lists are no part of
it; nor is bytecode, which the node makes, nor the release's own record. The hash is that of `sha256sum`'s lines, sorted
by name, so a person can check it with a shell:

    find . -type f ! -path '*/__pycache__/*' ! -path ./RELEASE.json -print0 | LC_ALL=C sort -z |
      xargs -0 sha256sum | sha256sum
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

PACKAGE = "colocation"
RECORD = "RELEASE.json"
BYTECODE = "__pycache__"
SHARED = ("common",)  # of our package, what is no agent
RELEASE_ID = re.compile(r"[0-9][0-9A-Za-z.+]*-[0-9a-f]{12}")
_AT_ONCE = 1 << 20


class TreeError(Exception):
    """Something in a tree that can't be packed or trusted."""


@dataclass(frozen=True, slots=True)
class Release:
    """What RELEASE.json says."""

    id: str
    version: str
    python: str
    architecture: str
    tree_sha256: str
    agents: dict[str, str]  # hash of all the files that an agent may run
    files: int
    bytes: int
    bytecode_sha256: str = ""  # written on the node

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> Release:
        """The reverse; ValueError says what is wrong."""
        if not isinstance(value, Mapping):
            raise ValueError(f"not a release: {value!r}")
        known = {field.name: value[field.name] for field in fields(Release) if field.name in value}
        words = ("id", "version", "python", "architecture", "tree_sha256")
        bad = [key for key in words if not isinstance(known.get(key), str)]
        bad += [key for key in ("files", "bytes") if not isinstance(known.get(key), int)]
        if not isinstance(known.get("agents"), Mapping):
            bad.append("agents")
        if bad:
            raise ValueError(f"a release without a proper {', '.join(bad)}")
        if not RELEASE_ID.fullmatch(known["id"]):
            raise ValueError(f"not the name of a release: {known['id']!r}")
        return Release(**known)


def read_record(root: str) -> Release:
    """What a tree says of itself; TreeError where it says nothing that can be read."""
    path = os.path.join(root, RECORD)
    try:
        with open(path, "rb") as file:
            return Release.from_json(json.load(file))
    except (OSError, ValueError) as problem:
        raise TreeError(f"{path} can't be read: {problem}") from problem


def walk(root: str) -> Iterator[str]:
    """The names of all files below `root`, in no particular order; TreeError for what is neither file nor directory."""
    with os.scandir(root) as listed:
        entries = list(listed)
    for entry in entries:
        if not entry.name.isprintable() or "\\" in entry.name:
            raise TreeError(f"{root} has something with a strange name: {entry.name!r}")
        if entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{name}" for name in walk(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield entry.name
        else:
            raise TreeError(f"{entry.path} is neither a file nor a directory")


def is_bytecode(name: str) -> bool:
    return BYTECODE in name.split("/")[:-1]


def hash_files(root: str) -> dict[str, str]:
    """The hash of each file of a tree, by its name."""
    names = sorted(name for name in walk(root) if name != RECORD and not is_bytecode(name))
    return {name: hash_file(os.path.join(root, name)) for name in names}


def hash_file(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_AT_ONCE):
            found.update(block)
    return found.hexdigest()


def digest(files: Mapping[str, str]) -> str:
    """One hash of all names and contents."""
    lines = (f"{files[name]}  ./{name}\n" for name in sorted(files))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def bytecode_digest(root: str, python: str) -> str:
    """One hash of the bytecode that this Python reads; what another one left there does not matter."""
    mark = f".cpython-{python.replace('.', '')}.pyc"
    names = sorted(name for name in walk(root) if is_bytecode(name) and name.endswith(mark))
    return digest({name: hash_file(os.path.join(root, name)) for name in names})


def agents(files: Mapping[str, str]) -> dict[str, str]:
    """The agents in a tree, each with the hash of all the files but those of other agents alone."""
    starts = (re.fullmatch(rf"{PACKAGE}/([a-z0-9_]+)/__main__\.py", name) for name in files)
    names = sorted(found[1] for found in starts if found and found[1] not in SHARED)
    rooms = {name: f"{PACKAGE}/{name}/" for name in names}

    def runs(agent: str, file: str) -> bool:
        return not any(file.startswith(room) for other, room in rooms.items() if other != agent)

    return {name: digest({file: files[file] for file in files if runs(name, file)}) for name in names}


def describe(root: str, version: str, python: str, architecture: str) -> Release:
    """The release that a tree makes."""
    files = hash_files(root)
    tree = digest(files)
    size = sum(os.lstat(os.path.join(root, name)).st_size for name in files)
    return Release(f"{version}-{tree[:12]}", version, python, architecture, tree, agents(files), len(files), size)


def faults(root: str, release: Release, uid: int) -> str:
    """Why a tree on a node is not (any more) that release as `uid` installed it, or "" """
    try:
        if digest(hash_files(root)) != release.tree_sha256:
            return "its files are not what was installed"
        if bytecode_digest(root, release.python) != release.bytecode_sha256:
            return "its bytecode is not what was made at the installation"
        for directory, dummy, names in os.walk(root):
            for path in (directory, *(os.path.join(directory, name) for name in names)):
                found = os.lstat(path)
                if found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o022:
                    return f"others may write to {os.path.relpath(path, root)}"
    except (OSError, TreeError) as problem:
        return str(problem)
    return ""
