# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Ask containerd what its config amounts to, also for files that are not written yet.

Files that are not written yet go, as a shadow copy, into a private temporary directory and are gone afterwards; they
may hold registry passwords.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_assume import assume
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import FileSet, shadow
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import Version, parse_version
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import TomlError
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_toml

Run = Callable[[list[str]], tuple[int, str, str]]  # exit status, output, errors

_LOG_LINE = re.compile(r"^time=\S+ level=(\w+) ")
_LOG_FILE = re.compile(r'^time=.* level=error .*\bfile="?([^" ]+)"?')


class ContainerdError(Exception):
    """containerd itself does not answer as it should; the text says how."""


class Unreadable(Exception):
    """containerd can't read its config: its own words."""

    def __init__(self, message: str, file: str = "") -> None:
        self.message = message
        self.file = file  # the file that containerd names, if it names one
        super().__init__(message)


class Oracle(Protocol):
    """Somebody who knows what a set of files amounts to."""

    @property
    def version(self) -> Version:
        """Of containerd."""

    def standing(self, files: FileSet) -> dict[str, Any]:
        """The effective config of the files as they stand; Unreadable if containerd can't read them."""

    def planned(self, files: FileSet) -> dict[str, Any]:
        """The effective config of files that may not be written yet."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """For a node without containerd: an assumed version and our own reckoning."""

    version: Version

    def standing(self, files: FileSet) -> dict[str, Any]:
        for file in files.files:
            if file.problem is not None:
                raise Unreadable(str(file.problem), file.path)
        return assume(files, self.version)

    def planned(self, files: FileSet) -> dict[str, Any]:
        return self.standing(files)


@dataclass(frozen=True, slots=True)
class Containerd:
    """The containerd of this node."""

    run: Run
    binary: str
    version: Version

    def standing(self, files: FileSet) -> dict[str, Any]:
        if not files.files:  # the daemon then takes its defaults; dump of 1.x fails
            return self._config("default")
        return self._config("dump", files.main)

    def planned(self, files: FileSet) -> dict[str, Any]:
        if not files.files:
            return self._config("default")
        with tempfile.TemporaryDirectory(prefix="colocation-containerd-") as directory:
            main, copies = shadow(files, directory)
            for path, content in copies.items():
                with open(path, "wb", opener=_private) as file:
                    file.write(content)
            try:
                return self._config("dump", main)
            except Unreadable as problem:
                named = {copy: file.path for copy, file in zip(copies, files.files, strict=True)}
                message = problem.message
                for copy, path in named.items():
                    message = message.replace(copy, path)
                raise Unreadable(message, named.get(problem.file, problem.file)) from None

    def _config(self, what: str, main: str = "") -> dict[str, Any]:
        option = ["--config", main] if main else []
        status, output, errors = self.run([self.binary, *option, "config", what])
        if status != 0:
            raise Unreadable(_last_words(errors) or f"it exits with status {status}", _named_file(errors))
        try:
            return read_toml(output.encode("utf-8", "surrogateescape")).tree
        except TomlError as error:
            raise ContainerdError(f"`containerd config {what}` prints what is no TOML: {error}") from error


def find_containerd(run: Run, binary: str) -> Containerd:
    status, output, errors = run([binary, "--version"])
    if status != 0:
        raise ContainerdError(f"`{binary} --version` fails: {errors.strip() or output.strip()}")
    version = parse_version(output)
    if version is None:
        raise ContainerdError(f"`{binary} --version` names no version: {output.strip()!r}")
    return Containerd(run, binary, version)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_words(errors: str) -> str:
    """What containerd says beside its log."""
    lines = [line for line in errors.splitlines() if line.strip() and not _LOG_LINE.match(line)]
    return (" ".join(lines) or errors.strip()).removeprefix("containerd: ")


def _named_file(errors: str) -> str:
    for line in errors.splitlines():
        if match := _LOG_FILE.match(line):
            return match[1]
    return ""
