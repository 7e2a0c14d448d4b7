# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How a TOML text is written: its quotes, its indents, the spelling of its keys; so that what is added looks alike."""

from __future__ import annotations

import re

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import (
    Array,
    Assignment,
    Document,
    KeyPart,
    Path,
    Scalar,
    Section,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_scalar import write_key

_INDENT = re.compile(r"[ \t]*")


def skip_blank(text: str, offset: int) -> int:
    match = _INDENT.match(text, offset)
    return match.end() if match else offset


def indent_at(document: Document, offset: int) -> str:
    line = document.text.rfind("\n", 0, offset) + 1
    return document.text[line : skip_blank(document.text, line)]


def _spelled(document: Document) -> dict[Path, str]:
    """How each key was written the first time."""
    spelled: dict[Path, str] = {}

    def note(base: Path, key: tuple[KeyPart, ...]) -> None:
        for part in key:
            base = (*base, part.name)
            spelled.setdefault(base, document.text[part.start : part.end])

    for section in document.sections:
        note((), section.key)
    for assignment in document.assignments:
        note(assignment.path[: len(assignment.path) - len(assignment.key)], assignment.key)
    return spelled


def spell(document: Document, names: Path, base: Path) -> str:
    spelled = _spelled(document)
    quote = key_quote(document)
    parts = []
    for name in names:
        base = (*base, name)
        parts.append(spelled.get(base) or write_key(name, quote))
    return ".".join(parts)


def key_quote(document: Document) -> str:
    for section in document.sections:
        for part in section.key:
            if document.text[part.start] in "\"'":
                return document.text[part.start]
    return value_quote(document)


def value_quote(document: Document) -> str:
    for assignment in document.assignments:
        quote = quote_at(document, assignment)
        if quote:
            return quote
    return '"'


def quote_at(document: Document, assignment: Assignment) -> str:
    node = assignment.node.items[0] if isinstance(assignment.node, Array) and assignment.node.items else assignment.node
    is_text = isinstance(node, Scalar) and isinstance(node.value, str)
    return document.text[node.start] if is_text else ""


def key_step(document: Document) -> str:
    """What keys are indented by, under their header."""
    for assignment in document.assignments:
        if assignment.section and not assignment.inline:
            header = indent_at(document, document.sections[assignment.section].header[0])
            return indent_at(document, assignment.key[0].start).removeprefix(header)
    return ""


def header_indent(document: Document, path: Path) -> str:
    sibling = _nearest(document, path, len(path))
    if sibling is not None:
        return indent_at(document, sibling.header[0])
    parent = next((s for depth in range(len(path) - 1, 0, -1) if (s := _nearest(document, path, depth))), None)
    if parent is None:
        return ""
    own = indent_at(document, parent.header[0])
    step = next((step for section in document.sections if (step := _section_step(document, section))), "")
    return own + step * (len(path) - len(parent.path))


def _nearest(document: Document, path: Path, length: int) -> Section | None:
    """A header of that length whose parent is on the way to `path`."""
    for section in document.sections:
        shares = length - 1 if length == len(path) else length
        if len(section.path) == length and section.path[:shares] == path[:shares]:
            return section
    return None


def _section_step(document: Document, section: Section) -> str:
    """By how much this header is indented more than its parent's."""
    for other in document.sections[1:]:
        if section.path[:-1] == other.path and other.path:
            return indent_at(document, section.header[0]).removeprefix(indent_at(document, other.header[0]))
    return ""
