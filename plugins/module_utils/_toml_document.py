# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a TOML text is made of, each piece with its place in the text.

A position is an offset in `Document.text`; an error carries line and column, counted from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

Path = tuple[str, ...]

BOM = b"\xef\xbb\xbf"


class TomlError(ValueError):
    """The text is not TOML: what is wrong, and at which line and column."""

    def __init__(self, message: str, text: str, offset: int) -> None:
        self.message = message
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - text.rfind("\n", 0, offset)
        super().__init__(f"line {self.line}, column {self.column}: {message}")


class Dialect(Enum):
    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class KeyPart:
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scalar:
    value: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Node, ...]
    commas: tuple[int, ...]  # the comma after each item; the last item may have none
    start: int
    end: int

    @property
    def value(self) -> list[Any]:
        return [item.value for item in self.items]


@dataclass(frozen=True, slots=True)
class InlineTable:
    entries: tuple[Assignment, ...]
    value: dict[str, Any]
    start: int
    end: int


Node: TypeAlias = "Scalar | Array | InlineTable"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One `key = value`: a line of its own, or an entry of an inline table."""

    path: Path  # from the root of the document
    key: tuple[KeyPart, ...]  # as written here
    node: Node
    section: int  # index into Document.sections
    inline: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A header and what follows it up to the next; section 0 has no header."""

    path: Path
    key: tuple[KeyPart, ...]
    header: tuple[int, int]  # the header's line without its line break
    is_array: bool


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    bom: bool
    dialect: Dialect
    tree: dict[str, Any]
    sections: tuple[Section, ...]
    assignments: tuple[Assignment, ...]  # in order; with the entries of inline tables, but not of those in arrays

    @property
    def newline(self) -> str:
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def encode(self) -> bytes:
        return encode(self.text, self.bom)


def encode(text: str, bom: bool) -> bytes:
    return (BOM if bom else b"") + text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> tuple[str, bool]:
    """Text and whether a byte order mark stood before it; bytes that are not UTF-8 survive as surrogates."""
    bom = data.startswith(BOM)
    return data[len(BOM) if bom else 0 :].decode("utf-8", "surrogateescape"), bom
