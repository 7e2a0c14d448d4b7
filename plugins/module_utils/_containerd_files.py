# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The files that make up containerd's config, in the order in which containerd reads them.

containerd reads the main file, then what it imports, then what those import; later files win. A name with a `*` is a
pattern, a relative one is relative to the file that names it, and no file is read twice.

`shadow` makes a copy of such a set for another directory, so that containerd can be asked about files that are not
written yet.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import file_version
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Dialect, Document, TomlError
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import set_value
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_toml

MAX_BYTES = 16 * 1024 * 1024


class Source(Protocol):
    """Where files are read from."""

    def read(self, path: str) -> bytes | None:
        """The content; None when there is no such file."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory; none when there is no such directory."""


class Disk:
    """The files of this machine."""

    def read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(content) > MAX_BYTES:
            raise OSError(f"{path} has more than {MAX_BYTES // 2**20} MiB; that is no config of containerd")
        return content

    def names(self, directory: str) -> list[str]:
        try:
            return os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []


@dataclass(frozen=True, slots=True)
class Overlay:
    """A source with some files changed or added."""

    below: Source
    changed: Mapping[str, bytes]

    def read(self, path: str) -> bytes | None:
        return self.changed[path] if path in self.changed else self.below.read(path)

    def names(self, directory: str) -> list[str]:
        added = [posixpath.basename(path) for path in self.changed if posixpath.dirname(path) == directory]
        return sorted({*self.below.names(directory), *added})


@dataclass(frozen=True, slots=True)
class ConfigFile:
    path: str
    data: bytes
    document: Document | None  # None when it can't be read
    problem: TomlError | None
    imports: tuple[str, ...] = ()  # resolved

    @property
    def tree(self) -> dict[str, Any]:
        return self.document.tree if self.document else {}

    @property
    def version(self) -> int:
        return file_version(self.tree)


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files in the order of reading, and imports that name no file."""

    main: str
    files: tuple[ConfigFile, ...]
    missing: tuple[tuple[str, str], ...]  # importing file, imported path

    def find(self, path: str) -> ConfigFile | None:
        return next((file for file in self.files if file.path == path), None)


def load(main: str, source: Source) -> FileSet:
    files: list[ConfigFile] = []
    missing: list[tuple[str, str]] = []
    pending = [("", main)]
    seen = set()
    while pending:
        importer, path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        data = source.read(path)
        if data is None:
            if importer:
                missing.append((importer, path))
            continue
        file = _read(path, data, source)
        files.append(file)
        pending.extend((path, imported) for imported in file.imports)
    return FileSet(main, tuple(files), tuple(missing))


def shadow(files: FileSet, directory: str) -> tuple[str, dict[str, bytes]]:
    """The main file's path and all files of a copy of the set under `directory`; it says the same as the set."""
    names = {file.path: posixpath.join(directory, f"{index}.toml") for index, file in enumerate(files.files)}
    copies = {}
    for file in files.files:
        content = file.data
        if file.document is not None and file.imports:
            imports = [names.get(path, path) for path in file.imports]
            content = set_value(file.document, ("imports",), imports).encode()
        copies[names[file.path]] = content
    return names.get(files.main, posixpath.join(directory, "0.toml")), copies


def read_config(data: bytes) -> Document:
    """The document, by TOML's rules or, failing that, by containerd 1.x's; the error is that of TOML's rules."""
    try:
        return read_toml(data)
    except TomlError as error:
        try:
            return read_toml(data, Dialect.LENIENT)
        except TomlError:
            raise error from None


def _read(path: str, data: bytes, source: Source) -> ConfigFile:
    try:
        document = read_config(data)
    except TomlError as error:
        return ConfigFile(path, data, None, error)
    wanted = document.tree.get("imports")
    texts = [text for text in wanted if isinstance(text, str)] if isinstance(wanted, list) else []
    imports = [found for text in texts for found in resolve(path, text, source)]
    return ConfigFile(path, data, document, None, tuple(imports))


def resolve(importer: str, text: str, source: Source) -> list[str]:
    """The files that one entry of `imports` stands for."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(importer), text))
    if path.startswith("//"):
        path = path[1:]
    return _glob(path, source) if "*" in path else [path]


def _glob(pattern: str, source: Source) -> list[str]:
    """As Go's filepath.Glob: a star matches within a name, names with a leading dot too; sorted."""
    directory, name = posixpath.split(pattern)
    directories = _glob(directory, source) if re.search(r"[*?\[]", directory) else [directory]
    matcher = _matcher(name)
    return [
        posixpath.join(parent, found)
        for parent in directories
        for found in sorted(source.names(parent))
        if matcher.fullmatch(found)
    ]


def _matcher(name: str) -> re.Pattern[str]:
    result, position = "", 0
    while position < len(name):
        mark = name[position]
        closing = name.find("]", position + 2) if mark == "[" else -1
        if mark == "*":
            result += ".*"
        elif mark == "?":
            result += "."
        elif mark == "\\" and position + 1 < len(name):
            position += 1
            result += re.escape(name[position])
        elif closing > 0:
            result += "[" + name[position + 1 : closing].replace("\\", "\\\\") + "]"
            position = closing
        else:
            result += re.escape(mark)
        position += 1
    return re.compile(result, re.DOTALL)
