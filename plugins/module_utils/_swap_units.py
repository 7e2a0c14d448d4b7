# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The unit files of systemd as they lie on disk: which one counts, what pulls it in, what is masked.

Read from the files and not asked of systemd, because what counts is the next boot: a file changed
since the last reload is already true then, and a killed run leaves exactly that. Knows nothing of swap.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

# highest precedence first (systemd.unit(5)); a unit in /etc can mask what stands below it
ABOVE_ETC = (
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
)
BELOW_ETC = (
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
)
ETC = "etc/systemd/system"
UNIT_DIRECTORIES = (*ABOVE_ETC, ETC, *BELOW_ETC)
GENERATOR_DIRECTORIES = tuple(
    f"{top}/systemd/system-generators" for top in ("run", "etc", "usr/local/lib", "usr/lib", "lib")
)


@dataclass(frozen=True, slots=True)
class UnitFile:
    """The file that counts for a unit name."""

    name: str
    path: str  # as seen on the node: /etc/systemd/system/x.swap
    text: str
    masked: bool

    @property
    def generated(self) -> bool:
        return self.path.startswith("/run/systemd/generator")

    @property
    def maskable(self) -> bool:
        """A link in /etc would win over this file."""
        return not self.path.startswith(tuple(f"/{directory}/" for directory in ABOVE_ETC))


@dataclass(frozen=True, slots=True)
class UnitTree:
    """Unit files by name, and who pulls a unit in (by links in .wants, .requires and .upholds)."""

    files: dict[str, UnitFile]
    pulled_by: dict[str, frozenset[str]]

    def masked(self, name: str) -> bool:
        unit = self.files.get(name)
        return unit is not None and unit.masked

    def pullers(self, name: str) -> frozenset[str]:
        """What starts a unit: nothing when it or all that asks for it is masked."""
        if self.masked(name):
            return frozenset()
        return frozenset(puller for puller in self.pulled_by.get(name, ()) if not self.masked(puller))


def below(root: str, path: str) -> str:
    """A path of the node under the root that we look at."""
    return os.path.join(root, path.lstrip("/"))


def read_text(path: str) -> str | None:
    """A file's text, None when there is none. Bytes that are no UTF-8 survive."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def read_unit_tree(root: str, wanted: frozenset[str], suffix: str) -> UnitTree:
    """The unit files whose name is in `wanted` or ends with `suffix`, and all links to them."""
    files: dict[str, UnitFile] = {}
    pulled_by: dict[str, set[str]] = {}
    for directory in UNIT_DIRECTORIES:
        for name in _names(below(root, directory)):
            if name in wanted or name.endswith(suffix):
                unit = _read_unit(root, f"/{directory}/{name}", name)
                if unit is not None:
                    files.setdefault(name, unit)
            puller, dot, relation = name.rpartition(".")
            if dot and relation in ("wants", "requires", "upholds"):
                for linked in _names(below(root, f"{directory}/{name}")):
                    if linked in wanted or linked.endswith(suffix):
                        pulled_by.setdefault(linked, set()).add(puller)
    return UnitTree(files, {name: frozenset(pullers) for name, pullers in pulled_by.items()})


def is_masked(path: str) -> bool:
    """A link to /dev/null or an empty file switches off what it stands for."""
    if os.path.islink(path):
        return os.readlink(path) == "/dev/null" or _is_empty(path)
    return _is_empty(path)


def generator_works(root: str, name: str) -> bool:
    """A generator is installed and not masked; a mask, a link to /dev/null, can't be executed."""
    for directory in GENERATOR_DIRECTORIES:
        path = below(root, f"{directory}/{name}")
        if os.path.lexists(path):
            return os.access(path, os.X_OK)
    return False


def _read_unit(root: str, path: str, name: str) -> UnitFile | None:
    real = below(root, path)
    if is_masked(real):
        return UnitFile(name, path, "", True)
    text = read_text(real)
    return None if text is None else UnitFile(name, path, text, False)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_empty(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.path.getsize(path) == 0
    except OSError:
        return False
