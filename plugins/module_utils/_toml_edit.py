# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Small edits of a TOML text that leave every other byte as it is.

A value that stands somewhere is replaced where it stands: on a line, in an inline table, behind a dotted key. A new
key goes to the table it belongs to, written the way that table is written: a line under its header, an entry of an
inline table, one more dotted key. Only when the table itself is new a header is added, after its nearest relatives.

Each edit reads its own result and compares it with what was wished; a result that differs in anything else is an
`EditError`, never a document.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import (
    Array,
    Assignment,
    Document,
    InlineTable,
    Path,
    TomlError,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_text
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_scalar import write_key, write_value
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_style import (
    header_indent,
    indent_at,
    key_quote,
    key_step,
    quote_at,
    skip_blank,
    spell,
    value_quote,
)

Value: TypeAlias = "bool | int | str | list[str]"


class EditError(ValueError):
    """This edit can't be made here; the text says why."""


def set_value(document: Document, path: Path, value: Value) -> Document:
    """The document with `value` at `path`; the same document when it already stands there."""
    found = find_assignment(document, path)
    if found is not None:
        if isinstance(found.node, InlineTable):
            raise EditError(f"{dotted(path)} is a table, not a value")
        if _same(found.node.value, value):
            return document
        quote = quote_at(document, found) or value_quote(document)
        text = _splice(document, found.node.start, found.node.end, write_value(value, quote))
    else:
        text = _insert(document, path, value)
    return _reread(document, text, _with_value(document.tree, path, value))


def append_item(document: Document, path: Path, item: str) -> Document:
    """The document with `item` at the end of the array at `path`, which is made when missing."""
    found = find_assignment(document, path)
    if found is None:
        return set_value(document, path, [item])
    array = found.node
    if not isinstance(array, Array):
        raise EditError(f"{dotted(path)} is not an array")
    if item in array.value:
        return document
    written = write_value(item, value_quote(document))
    if not array.items:
        text = _splice(document, array.start, array.end, f"[{written}]")
    else:
        text = _append_text(document, array, written)
    return _reread(document, text, _with_value(document.tree, path, [*array.value, item]))


def remove_items(document: Document, path: Path, unwanted: Callable[[Any], bool]) -> Document:
    """The document without those items of the array at `path`; comments beside them stay."""
    found = find_assignment(document, path)
    if found is None or not isinstance(found.node, Array):
        return document
    kept = [item for item in found.node.value if not unwanted(item)]
    if len(kept) == len(found.node.items):
        return document
    wished = _with_value(document.tree, path, kept)
    while True:
        array = find_array(document, path)
        index = next((i for i, item in enumerate(array.items) if unwanted(item.value)), None)
        if index is None:
            return _reread(document, document.text, wished)
        document = read_text(_without_item(document, array, index), document.bom, document.dialect)


def find_assignment(document: Document, path: Path) -> Assignment | None:
    for assignment in document.assignments:
        if assignment.path == path and not _in_array_of_tables(document, assignment):
            return assignment
    return None


def find_array(document: Document, path: Path) -> Array:
    found = find_assignment(document, path)
    if found is None or not isinstance(found.node, Array):
        raise EditError(f"{dotted(path)} is not an array")
    return found.node


def dotted(path: Path) -> str:
    return ".".join(write_key(name) for name in path)


def value_at(tree: Any, path: Path) -> Any:
    """What stands at `path`, or None."""
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return None
        tree = tree[name]
    return tree


def canonical(tree: Any) -> str:
    """A text that two trees share only if they say the same (nan included, true apart from 1)."""
    return json.dumps(tree, sort_keys=True, default=repr)


# The checks around an edit


def _same(old: Any, new: Value) -> bool:
    return type(old) is type(new) and old == new


def _with_value(tree: dict[str, Any], path: Path, value: Value) -> dict[str, Any]:
    result: dict[str, Any] = copy.deepcopy(tree)
    table = result
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise EditError(f"{dotted(path)}: {name} is a value, not a table")
    table[path[-1]] = value
    return result


def _reread(document: Document, text: str, wished: dict[str, Any]) -> Document:
    try:
        result = read_text(text, document.bom, document.dialect)
    except TomlError as error:
        raise EditError(f"the edit would have made the text unreadable ({error})") from error
    if canonical(result.tree) != canonical(wished):
        raise EditError("the edit would have changed more than it should")
    return result


def _in_array_of_tables(document: Document, assignment: Assignment) -> bool:
    path = document.sections[assignment.section].path
    arrays = {section.path for section in document.sections if section.is_array}
    return any(path[: depth + 1] in arrays for depth in range(len(path)))


# Arrays


def _append_text(document: Document, array: Array, written: str) -> str:
    last = array.items[-1]
    has_comma = len(array.commas) == len(array.items)
    if "\n" not in document.text[array.start : last.start]:
        if has_comma:
            after = array.commas[-1] + 1
            return _splice(document, after, after, f" {written},")
        return _splice(document, last.end, last.end, f", {written}")
    line = f"{document.newline}{indent_at(document, last.start)}{written}"
    if has_comma:
        end = _line_end(document.text, array.commas[-1])
        return _splice(document, end, end, f"{line},") if end < array.end else _crowded(document, array, written)
    end = _line_end(document.text, last.end)
    if end >= array.end:
        return _splice(document, last.end, last.end, f", {written}")
    text = _splice(document, end, end, line)
    return text[: last.end] + "," + text[last.end :]


def _crowded(document: Document, array: Array, written: str) -> str:
    after = array.commas[-1] + 1
    return _splice(document, after, after, f" {written},")


def _without_item(document: Document, array: Array, index: int) -> str:
    text = document.text
    item = array.items[index]
    start, end = item.start, item.end
    if index < len(array.commas):
        between = text[item.end : array.commas[index]]
        if between.strip(" \t"):  # a comment or a line break before the comma: blank both, keep what is between
            return text[:start] + between + text[array.commas[index] + 1 :]
        end = array.commas[index] + 1
        if index + 1 < len(array.items):
            end = skip_blank(text, end)
    elif index > 0:
        comma = array.commas[index - 1]
        if not text[comma + 1 : start].strip(" \t"):
            start = comma
        else:
            text = text[:comma] + text[comma + 1 :]
            start, end = start - 1, end - 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = _line_end(text, end)
    if not text[line_start:start].strip() and not text[end:line_end].strip() and line_end < len(text):
        return text[:line_start] + text[line_end:].removeprefix("\r").removeprefix("\n")
    if len(array.items) == 1 and "\n" not in text[array.start : array.end] and "#" not in text[array.start : start]:
        close = text.index("]", end)
        return text[: array.start + 1] + text[close:]
    return text[:start] + text[end:]


# Places for a new key


def _insert(document: Document, path: Path, value: Value) -> str:
    parent = path[:-1]
    for depth in range(len(parent), -1, -1):
        prefix = parent[:depth]
        holder = find_assignment(document, prefix) if prefix else None
        if holder is not None:
            if not isinstance(holder.node, InlineTable):
                raise EditError(f"{dotted(prefix)} is a value, not a table")
            return _insert_inline(document, holder.node, path[depth:], prefix, value)
        neighbour = _dotted_neighbour(document, prefix)
        if neighbour is not None:
            return _insert_line(document, neighbour.section, neighbour, path, value)
        section = _header_of(document, prefix)
        if depth == len(parent) and section is not None:
            return _insert_line(document, section, _last_of(document, section), path, value)
        if isinstance(value_at(document.tree, prefix), list):
            raise EditError(f"{dotted(prefix)} is an array of tables")
        if section is not None or value_at(document.tree, prefix) is not None:
            return _insert_section(document, parent, path[-1], value, prefix)
    raise EditError(f"no place for {dotted(path)}")


def _insert_inline(document: Document, table: InlineTable, rest: Path, prefix: Path, value: Value) -> str:
    quote = key_quote(document)
    written = write_value(value, value_quote(document))
    if len(rest) > 1 and value_at(document.tree, (*prefix, rest[0])) is None:
        for name in reversed(rest[1:]):
            written = f"{{ {write_key(name, quote)} = {written} }}"
        entry = f"{write_key(rest[0], quote)} = {written}"
    else:
        entry = f"{'.'.join(write_key(name, quote) for name in rest)} = {written}"
    if not table.entries:
        return _splice(document, table.start, table.end, f"{{ {entry} }}")
    after = table.entries[-1].node.end
    return _splice(document, after, after, f", {entry}")


def _dotted_neighbour(document: Document, prefix: Path) -> Assignment | None:
    """The last line whose dotted key makes the table `prefix`."""
    found = None
    for assignment in document.assignments:
        made_here = len(document.sections[assignment.section].path) < len(prefix) < len(assignment.path)
        if made_here and not assignment.inline and assignment.path[: len(prefix)] == prefix:
            found = None if _in_array_of_tables(document, assignment) else assignment
    return found


def _header_of(document: Document, path: Path) -> int | None:
    for index, section in enumerate(document.sections):
        if section.path == path and not section.is_array:
            return index
    return None


def _last_of(document: Document, section: int) -> Assignment | None:
    found = None
    for assignment in document.assignments:
        if assignment.section == section and not assignment.inline:
            found = assignment
    return found


def _insert_line(document: Document, section: int, after: Assignment | None, path: Path, value: Value) -> str:
    base = document.sections[section]
    key = spell(document, path[len(base.path) :], base.path)
    line = f"{key} = {write_value(value, value_quote(document))}"
    if after is not None:
        indent = indent_at(document, after.key[0].start)
        return _add_lines(document, _line_end(document.text, after.node.end), [indent + line])
    if section == 0:
        return _add_first_line(document, line)
    indent = indent_at(document, base.header[0]) + key_step(document)
    return _add_lines(document, _line_end(document.text, base.header[1]), [indent + line])


def _insert_section(document: Document, path: Path, name: str, value: Value, relatives: Path) -> str:
    relative = 0
    for index, section in enumerate(document.sections):
        if section.path[: len(relatives)] == relatives:
            relative = index
    indent = header_indent(document, path)
    lines = [
        "",
        f"{indent}[{spell(document, path, ())}]",
        f"{indent}{key_step(document)}{write_key(name, key_quote(document))} = "
        f"{write_value(value, value_quote(document))}",
    ]
    place = _end_of_section(document, relative)
    return _add_lines(document, place, lines if document.text[:place].strip() else lines[1:])


def _end_of_section(document: Document, index: int) -> int:
    """Where the section's own lines end: its comments are its own, but for a block that touches the next header."""
    text = document.text
    last = _last_of(document, index)
    start = _line_end(text, last.node.end) if last else document.sections[index].header[1]
    start = _line_end(text, start)
    stop = len(text)
    if index + 1 < len(document.sections):
        stop = text.rfind("\n", 0, document.sections[index + 1].header[0]) + 1
    lines = text[start:stop].splitlines(keepends=True)
    if index + 1 < len(document.sections):
        while lines and lines[-1].strip():
            lines.pop()
    while lines and not lines[-1].strip():
        lines.pop()
    return start + len("".join(lines).rstrip("\r\n")) if lines else start


# Text


def _splice(document: Document, start: int, end: int, new: str) -> str:
    return document.text[:start] + new + document.text[end:]


def _line_end(text: str, offset: int) -> int:
    """Where the line of `offset` ends, before its line break."""
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def _add_lines(document: Document, place: int, lines: list[str]) -> str:
    """Whole lines after the one that ends at `place`."""
    newline = document.newline
    before, after = document.text[:place], document.text[place:]
    if not before:
        return newline.join(lines) + newline + after
    return before + "".join(newline + line for line in lines) + (after or newline)


def _add_first_line(document: Document, line: str) -> str:
    """A first key of the document: under the comment that heads it, else on top."""
    newline = document.newline
    head = 0
    for text in document.text.splitlines(keepends=True):
        if not text.startswith("#"):
            if text.strip():
                head = 0
            break
        head += len(text)
    before = document.text[:head]
    if before and not before.endswith("\n"):
        before += newline
    after = document.text[head:]
    gap = newline if after.strip() and not after.startswith(("\n", "\r")) else ""
    return before + line + newline + gap + after
