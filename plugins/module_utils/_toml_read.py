# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A TOML 1.0 reader that remembers where everything stands.

Nodes may have Python 3.10, which has no tomllib, and tomllib forgets positions. This reader keeps the text and
gives each table, key and value its place in it, so that an edit can change one value and leave every other byte.
It knows nothing of containerd and does no I/O.

Two dialects. STRICT is TOML 1.0. LENIENT also takes what containerd 1.x takes and a careful edit can preserve:
bytes that are not UTF-8, control characters in comments, line breaks in inline tables, and a table that is opened
by dotted keys first and by a header later. A byte order mark is kept in both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import (
    Array,
    Assignment,
    Dialect,
    Document,
    InlineTable,
    KeyPart,
    Node,
    Path,
    Scalar,
    Section,
    TomlError,
    decode,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_scalar import (
    ScalarError,
    read_scalar,
    unescape,
)

MAX_DEPTH = 64

_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT = re.compile(r"#[^\x00-\x08\x0a-\x1f\x7f]*")
_LENIENT_COMMENT = re.compile(r"#[^\r\n]*")
_NEWLINE = re.compile(r"\r?\n")
_BASIC = re.compile(r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\n])*)"')
_LITERAL = re.compile(r"'([^'\x00-\x08\x0a-\x1f\x7f]*)'")
_LONG_BASIC = re.compile(r'"""(?:\r?\n)?((?:[^"\\]|\\[\s\S]|"(?!""))*)"""("{0,2})')
_LONG_LITERAL = re.compile(r"'''(?:\r?\n)?((?:[^']|'(?!''))*)'''('{0,2})")
_LONG_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_PLAIN = re.compile(r"[A-Za-z0-9_+:.-]+(?: (?=[0-9])[0-9:.+Zz-]+)?")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_toml(data: bytes, dialect: Dialect = Dialect.STRICT) -> Document:
    text, bom = decode(data)
    return _Reader(text, bom, dialect).read()


def read_text(text: str, bom: bool = False, dialect: Dialect = Dialect.STRICT) -> Document:
    return _Reader(text, bom, dialect).read()


class _Made(Enum):
    """How a table came to be; it decides what may still be added to it."""

    IMPLICIT = 0  # named only as part of a longer header
    HEADER = 1
    DOTTED = 2
    INLINE = 3


@dataclass(slots=True)
class _Table:
    made: _Made
    section: int
    children: dict[str, Any] = field(default_factory=dict)  # _Table, _Tables, or a plain value


@dataclass(slots=True)
class _Tables:
    """An array of tables; the last one is open."""

    items: list[_Table]


def _plain(node: Any) -> Any:
    if isinstance(node, _Table):
        return {name: _plain(child) for name, child in node.children.items()}
    if isinstance(node, _Tables):
        return [_plain(item) for item in node.items]
    return node


class _Reader:
    def __init__(self, text: str, bom: bool, dialect: Dialect) -> None:
        self.text = text
        self.bom = bom
        self.dialect = dialect
        self.lenient = dialect is Dialect.LENIENT
        self.position = 0
        self.root = _Table(_Made.HEADER, 0)
        self.open = self.root
        self.sections = [Section((), (), (0, 0), False)]
        self.assignments: list[Assignment] = []

    def fail(self, message: str, offset: int | None = None) -> TomlError:
        return TomlError(message, self.text, self.position if offset is None else offset)

    def read(self) -> Document:
        if not self.lenient and (bad := _SURROGATE.search(self.text)):
            raise self.fail("this byte is not UTF-8", bad.start())
        while self.position < len(self.text):
            self.skip_blank()
            mark = self.text[self.position : self.position + 1]
            if mark == "[":
                self.read_header()
            elif mark not in ("", "#", "\r", "\n"):
                self.read_line_assignment()
            self.end_line()
        tree = _plain(self.root)
        return Document(self.text, self.bom, self.dialect, tree, tuple(self.sections), tuple(self.assignments))

    def skip_blank(self) -> None:
        match = _BLANK.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def skip_comment(self) -> None:
        match = (_LENIENT_COMMENT if self.lenient else _COMMENT).match(self.text, self.position)
        if match:
            self.position = match.end()

    def skip_newline(self) -> bool:
        match = _NEWLINE.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match is not None

    def skip_lines(self) -> None:
        """Blanks, comments and line breaks, as inside an array."""
        while True:
            before = self.position
            self.skip_blank()
            self.skip_comment()
            self.skip_newline()
            if self.position == before:
                return

    def end_line(self) -> None:
        self.skip_blank()
        self.skip_comment()
        if not self.skip_newline() and self.position < len(self.text):
            raise self.fail(f"the line should end here, but there is {self.text[self.position]!r}")

    def expect(self, mark: str, where: str) -> None:
        if not self.text.startswith(mark, self.position):
            found = self.text[self.position : self.position + 1]
            raise self.fail(f"expected {mark!r} {where}, found {found!r}" if found else f"expected {mark!r} {where}")
        self.position += len(mark)

    # Keys and headers

    def read_key(self) -> tuple[KeyPart, ...]:
        parts = [self.read_key_part()]
        while True:
            after = self.position
            self.skip_blank()
            if not self.text.startswith(".", self.position):
                self.position = after
                return tuple(parts)
            self.position += 1
            self.skip_blank()
            parts.append(self.read_key_part())

    def read_key_part(self) -> KeyPart:
        start = self.position
        if self.text.startswith(('"""', "'''"), start):
            raise self.fail("a key can't be a multi-line string")
        if match := _BARE_KEY.match(self.text, start):
            name = match.group()
        elif match := _LITERAL.match(self.text, start):
            name = match.group(1)
        elif match := _BASIC.match(self.text, start):
            name = self.unescaped(match.group(1), start + 1, False)
        else:
            raise self.fail("a key should stand here")
        self.position = match.end()
        return KeyPart(name, start, match.end())

    def unescaped(self, body: str, offset: int, multi_line: bool) -> str:
        try:
            return unescape(body, multi_line)
        except ScalarError as error:
            raise self.fail(error.message, offset + error.offset) from None

    def read_header(self) -> None:
        start = self.position
        is_array = self.text.startswith("[[", start)
        self.position += 2 if is_array else 1
        self.skip_blank()
        key = self.read_key()
        self.skip_blank()
        self.expect("]]" if is_array else "]", "at the end of the table's header")
        path = tuple(part.name for part in key)
        self.sections.append(Section(path, key, (start, self.position), is_array))
        parent = self.root
        for depth, part in enumerate(key[:-1]):
            child = parent.children.setdefault(part.name, _Table(_Made.IMPLICIT, len(self.sections) - 1))
            if isinstance(child, _Tables):
                child = child.items[-1]
            if not isinstance(child, _Table) or child.made is _Made.INLINE:
                raise self.fail(f"{'.'.join(path[: depth + 1])} is a value, not a table to add to", start)
            parent = child
        self.open = self.open_tables(parent, path, start) if is_array else self.open_table(parent, path, start)

    def open_table(self, parent: _Table, path: Path, start: int) -> _Table:
        child = parent.children.get(path[-1])
        section = len(self.sections) - 1
        if child is None:
            child = parent.children[path[-1]] = _Table(_Made.HEADER, section)
            return child
        reopened = (_Made.IMPLICIT, _Made.DOTTED) if self.lenient else (_Made.IMPLICIT,)
        if not isinstance(child, _Table) or child.made not in reopened:
            raise self.fail(f"{'.'.join(path)} is already defined", start)
        child.made, child.section = _Made.HEADER, section
        return child

    def open_tables(self, parent: _Table, path: Path, start: int) -> _Table:
        made = _Table(_Made.HEADER, len(self.sections) - 1)
        child = parent.children.get(path[-1])
        if child is None:
            parent.children[path[-1]] = _Tables([made])
        elif isinstance(child, _Tables):
            child.items.append(made)
        else:
            raise self.fail(f"{'.'.join(path)} is already defined, not as an array of tables", start)
        return made

    # Assignments

    def read_line_assignment(self) -> None:
        section = len(self.sections) - 1
        base = self.sections[section].path
        slot = len(self.assignments)
        key, node = self.read_pair(base)
        self.store(self.open, key, node)
        path = base + tuple(part.name for part in key)
        self.assignments.insert(slot, Assignment(path, key, node, section, False))

    def read_pair(self, base: Path, depth: int = 0) -> tuple[tuple[KeyPart, ...], Node]:
        key = self.read_key()
        self.skip_blank()
        self.expect("=", "after the key")
        self.skip_blank()
        return key, self.read_value(base + tuple(part.name for part in key), depth)

    def store(self, table: _Table, key: tuple[KeyPart, ...], node: Node) -> None:
        section = len(self.sections) - 1
        for part in key[:-1]:
            child = table.children.setdefault(part.name, _Table(_Made.DOTTED, section))
            if isinstance(child, _Table) and child.made is _Made.IMPLICIT:
                child.made, child.section = _Made.DOTTED, section
            ours = isinstance(child, _Table) and child.made is _Made.DOTTED and child.section == section
            if not ours and not (self.lenient and isinstance(child, _Table) and child.made is not _Made.INLINE):
                raise self.fail(f"{part.name} is already defined and can't be added to here", part.start)
            table = child
        last = key[-1]
        if last.name in table.children:
            raise self.fail(f"{last.name} is already defined", last.start)
        table.children[last.name] = _inline_tree(node.value) if isinstance(node, InlineTable) else node.value

    # Values

    def read_value(self, path: Path, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fail(f"values are nested more than {MAX_DEPTH} deep")
        start = self.position
        mark = self.text[start : start + 1]
        if mark == "[":
            return self.read_array(path, depth)
        if mark == "{":
            return self.read_inline_table(path, depth)
        if mark in ('"', "'"):
            return self.read_string()
        match = _PLAIN.match(self.text, start)
        if not match:
            raise self.fail("a value should stand here")
        try:
            value, length = read_scalar(match.group())
        except ScalarError as error:
            raise self.fail(error.message, start) from None
        self.position = start + length
        return Scalar(value, start, self.position)

    def read_string(self) -> Scalar:
        start = self.position
        if self.text.startswith(('"""', "'''"), start):
            basic = self.text[start] == '"'
            match = (_LONG_BASIC if basic else _LONG_LITERAL).match(self.text, start)
            if not match:
                raise self.fail("this multi-line string does not end")
            if bad := _LONG_FORBIDDEN.search(self.text, match.start(1), match.end(1)):
                raise self.fail("a control character in a string", bad.start())
            body = match.group(1).replace("\r\n", "\n")
            value = (self.unescaped(body, match.start(1), True) if basic else body) + match.group(2)
        elif match := _BASIC.match(self.text, start):
            value = self.unescaped(match.group(1), start + 1, False)
        elif match := _LITERAL.match(self.text, start):
            value = match.group(1)
        else:
            raise self.fail("this string does not end on its line, or holds a control character")
        self.position = match.end()
        return Scalar(value, start, self.position)

    def read_array(self, path: Path, depth: int) -> Array:
        start = self.position
        self.position += 1
        items: list[Node] = []
        commas: list[int] = []
        recorded = len(self.assignments)
        while True:
            self.skip_lines()
            if self.text.startswith("]", self.position):
                break
            if self.position >= len(self.text):
                break
            items.append(self.read_value(path, depth + 1))
            self.skip_lines()
            if not self.text.startswith(",", self.position):
                break
            commas.append(self.position)
            self.position += 1
        if self.position >= len(self.text):
            raise self.fail("this array does not end", start)
        self.expect("]", "or ',' after an item of an array")
        del self.assignments[recorded:]  # entries of tables in an array have no path of their own
        return Array(tuple(items), tuple(commas), start, self.position)

    def read_inline_table(self, path: Path, depth: int) -> InlineTable:
        start = self.position
        section = len(self.sections) - 1
        skip = self.skip_lines if self.lenient else self.skip_blank
        self.position += 1
        table = _Table(_Made.INLINE, section)
        entries: list[Assignment] = []
        skip()
        while not self.text.startswith("}", self.position) or entries:
            inner = len(self.assignments)
            key, node = self.read_pair(path, depth + 1)
            self.store(table, key, node)
            entry = Assignment(path + tuple(part.name for part in key), key, node, section, True)
            entries.append(entry)
            self.assignments.insert(inner, entry)
            skip()
            if not self.text.startswith(",", self.position):
                break
            self.position += 1
            skip()
        self.expect("}", "at the end of the inline table")
        return InlineTable(tuple(entries), _plain(table), start, self.position)


def _inline_tree(value: Any) -> Any:
    """An inline table is closed: nothing may be added to it or to a table in it."""
    if not isinstance(value, dict):
        return value
    return _Table(_Made.INLINE, -1, {name: _inline_tree(child) for name, child in value.items()})
