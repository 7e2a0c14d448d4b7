# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The configuration file of a running agent: read again when asked; the old one stays where the new one is bad."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

from colocation.common.config import ConfigError, Problem, load

T = TypeVar("T")
MOST = 1 << 20  # a configuration is small; something else was named by mistake


def read(schema: type[T], file: str) -> T:
    """The configuration in a file, or a ConfigError."""
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MOST + 1)
        text = content.decode()
    except OSError as problem:
        raise ConfigError(file, (Problem(1, "", f"can't be read: {problem.strerror}"),)) from None
    except UnicodeDecodeError:
        raise ConfigError(file, (Problem(1, "", "is not UTF-8 text"),)) from None
    if len(content) > MOST:
        raise ConfigError(file, (Problem(1, "", f"is larger than {MOST} bytes"),))
    return load(schema, text, file)


class Settings(Generic[T]):
    """The configuration in force, and what is wrong with the file since.

    An agent that must run whatever stands there gives what it falls back to: then a bad file is rejected at the start
    as it is in a reload.
    """

    def __init__(self, schema: type[T], file: str, fallback: T | None = None) -> None:
        self.schema = schema
        self.file = file
        self.rejected: ConfigError | None = None
        try:
            self.current: T = read(schema, file)
        except ConfigError as problem:
            if fallback is None:
                raise
            self.current, self.rejected = fallback, problem

    def reload(self) -> bool:
        """Read the file again; True if its configuration is in force now. A bad one changes nothing."""
        try:
            self.current = read(self.schema, self.file)
        except ConfigError as problem:
            self.rejected = problem
            return False
        self.rejected = None
        return True
