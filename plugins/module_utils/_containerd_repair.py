# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Save what can be saved of a config that containerd can't read, and say exactly what could not.

The rule: a table stays where its header can be trusted. A line that can't be read goes; if what remains of its table
still can't be read, or if the header itself is broken, the whole table goes, because its keys might belong elsewhere.
Nothing is guessed or mended.

Pure. containerd itself has the last word: the shell offers it `candidates`, from the one that loses least to the empty
config, and takes the first that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import CRI_IMAGES, CRI_RUNTIME
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import (
    BOM,
    Document,
    TomlError,
    decode,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import (
    EditError,
    dotted,
    find_array,
    remove_items,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_text

MAX_SINGLE_TRIES = 300
MAX_LINES_OF_A_TABLE = 20

_HEADER = re.compile(r"[ \t]*\[")
_ALLOWED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\Z)|[\ud800-\udfff]")
_POSITIONS = (re.compile(r"row (\d+) column (\d+)"), re.compile(r"\((\d+), (\d+)\): "))


@dataclass(frozen=True, slots=True)
class Dropped:
    """Lines that did not make it; never their values, which may be secrets."""

    first: int  # line numbers of the broken file, from 1
    last: int
    what: str
    why: str

    def __str__(self) -> str:
        lines = f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        return f"{lines}: {self.what} ({self.why})"


@dataclass(frozen=True, slots=True)
class Salvage:
    data: bytes
    dropped: tuple[Dropped, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str


def position_in(message: str) -> tuple[int, int] | None:
    """Line and column that containerd names in its error."""
    for pattern in _POSITIONS:
        if match := pattern.search(message):
            return int(match[1]), int(match[2])
    return None


def candidates(data: bytes, new_version: int, message: str = "") -> Iterator[Salvage]:
    """Readable texts made of the broken one, the fullest first; `message` is containerd's error about it."""
    base, kept = _readable(data)
    yield _finish(base, kept)
    # TOML's rules are met, and yet containerd may refuse: a plugin that can't be disabled by that name, a wrong type…
    document = _read(kept)
    short_names = _without_short_names(document, kept)
    if short_names is not None:
        yield Salvage(short_names.data, (*base, *short_names.dropped))
    position = position_in(message)
    singles = _single_losses(document, kept, position[0] if position else 0)
    for lines, why in singles:
        yield _finish([*base, why], [line for line in kept if line.number not in lines])
    wanted = _essential(document, kept)
    if len(wanted) < len(kept):
        yield _finish(
            [*base, *_gone(kept, wanted, "containerd refuses the whole; registries and runtimes kept")], wanted
        )
    everything = [Dropped(1, _lines(data)[-1].number if data else 1, "everything", "containerd refuses every part")]
    yield Salvage(f"version = {new_version}\n".encode(), tuple(everything))


def _lines(data: bytes) -> list[_Line]:
    text, _bom = decode(data)
    return [_Line(number, part) for number, part in enumerate(text.split("\n"), 1)]


def _join(lines: list[_Line]) -> str:
    return "\n".join(line.text for line in lines)


def _read(lines: list[_Line]) -> Document:
    return read_text(_join(lines) + "\n")


def _finish(dropped: list[Dropped], kept: list[_Line]) -> Salvage:
    text = _join(kept)
    return Salvage((text if text.endswith("\n") or not text else text + "\n").encode(), tuple(dropped))


def _readable(data: bytes) -> tuple[list[Dropped], list[_Line]]:
    """The lines that together are TOML, and what was left out."""
    bom = data.startswith(BOM)
    dropped = [Dropped(1, 1, "the byte order mark", "containerd may refuse it; nothing else needs it")] if bom else []
    kept: list[_Line] = []
    for table in _tables(_lines(data)):
        lost, lines = _readable_table(table)
        try:
            _read([*kept, *lines])
        except TomlError as error:
            lost, lines = [_whole(table, error.message)], []
        dropped += lost
        kept += lines
    return _with_version(dropped, kept)


def _with_version(dropped: list[Dropped], kept: list[_Line]) -> tuple[list[Dropped], list[_Line]]:
    """Without its version a config would be read as version 1, and all else in it not at all; the tables tell it."""
    tree = _read(kept).tree
    plugins = tree.get("plugins")
    names = plugins if isinstance(plugins, dict) else {}
    version = 3 if {CRI_RUNTIME, CRI_IMAGES} & set(names) else 2 if any("." in name for name in names) else 0
    lost = [one for one in dropped if one.what.startswith(("version =", "the keys before"))]
    if "version" in tree or not lost or not version:
        return dropped, kept
    told = replace(lost[0], why=f"{lost[0].why}; written anew as version = {version}, which the tables tell")
    return [told if one is lost[0] else one for one in dropped], [_Line(lost[0].first, f"version = {version}"), *kept]


def _tables(lines: list[_Line]) -> list[list[_Line]]:
    """The text cut before each line that looks like a header; cuts inside values are joined again where they read."""
    tables: list[list[_Line]] = [[]]
    for line in lines:
        if _HEADER.match(line.text) and not _continues(tables[-1]):
            tables.append([])
        tables[-1].append(line)
    return tables


def _continues(table: list[_Line]) -> bool:
    """Whether the table's last value is a text or list that is still open, so that this line may be part of it."""
    try:
        _read(table)
    except TomlError as error:
        open_list = "array does not end" in error.message and len(table) - error.line < MAX_LINES_OF_A_TABLE
        return open_list or "multi-line string does not end" in error.message
    return False


def _readable_table(table: list[_Line]) -> tuple[list[Dropped], list[_Line]]:
    dropped: list[Dropped] = []
    lines = [line for line in table if not _ALLOWED.search(line.text)]
    for line in table:
        if line not in lines:
            dropped.append(_line(line, "a byte that is not UTF-8, or a control character"))
            if _HEADER.match(line.text):
                return [_whole(table, "its header can't be read")], []
    for dummy in range(MAX_LINES_OF_A_TABLE):
        try:
            _read(lines)
        except TomlError as error:
            if "multi-line string does not end" in error.message:  # whatever follows may be part of it
                return [_whole(table, error.message)], []
            bad = lines[error.line - 1] if error.line <= len(lines) else lines[-1]
            if _HEADER.match(bad.text) and bad is table[0]:
                return [_whole(table, error.message)], []
            dropped.append(_line(bad, error.message))
            lines = [line for line in lines if line is not bad]
        else:
            return dropped, lines
    return [_whole(table, "too much of it can't be read")], []


def _line(line: _Line, why: str) -> Dropped:
    return Dropped(line.number, line.number, _shown(line.text), why)


def _whole(table: list[_Line], why: str) -> Dropped:
    what = _shown(table[0].text) if _HEADER.match(table[0].text) else "the keys before the first table"
    return Dropped(table[0].number, table[-1].number, what, why)


def _shown(text: str) -> str:
    """The line up to its value."""
    if text.lstrip().startswith("#"):
        return "a comment"
    shown = text.strip().split("=", 1)[0].strip()[:80].encode("ascii", "replace").decode()
    return shown if "=" not in text else f"{shown} = …"


def _without_short_names(document: Document, kept: list[_Line]) -> Salvage | None:
    """containerd wants full names in `disabled_plugins` from config version 2 on, and refuses all if one is short."""
    try:
        array = find_array(document, ("disabled_plugins",))
        mended = remove_items(document, ("disabled_plugins",), _is_short)
    except EditError:
        return None
    if mended is document:
        return None
    dropped = [
        Dropped(number, number, f"{item.value} in disabled_plugins", "containerd wants a full name there")
        for item in array.items
        if _is_short(item.value)
        for number in [kept[document.text.count("\n", 0, item.start)].number]
    ]
    return Salvage(mended.encode(), tuple(dropped))


def _is_short(name: Any) -> bool:
    return isinstance(name, str) and "." not in name


def _single_losses(document: Document, kept: list[_Line], suspect: int) -> Iterator[tuple[set[int], Dropped]]:
    """Each single key, then each single table, that could be left out; what containerd complains about first."""
    text = document.text
    keys = [a for a in document.assignments if not a.inline and a.path != ("version",)]
    losses = []
    for key in keys[:MAX_SINGLE_TRIES]:
        first, last = text.count("\n", 0, key.key[0].start), text.count("\n", 0, key.node.end)
        numbers = {line.number for line in kept[first : last + 1]}
        losses.append((numbers, Dropped(min(numbers), max(numbers), dotted(key.path), "containerd refuses it")))
    bounds = [text.count("\n", 0, section.header[0]) for section in document.sections] + [len(kept)]
    for index, section in enumerate(document.sections[: MAX_SINGLE_TRIES + 1]):
        numbers = {line.number for line in kept[bounds[index] : bounds[index + 1]]}
        if index and numbers:
            losses.append(
                (numbers, Dropped(min(numbers), max(numbers), f"[{dotted(section.path)}]", "containerd refuses it"))
            )
    yield from sorted(losses, key=lambda loss: suspect not in loss[0])


def _essential(document: Document, kept: list[_Line]) -> list[_Line]:
    """The keys before the first table, and the tables of registries and runtimes."""
    bounds = [document.text.count("\n", 0, section.header[0]) for section in document.sections] + [len(kept)]
    result: list[_Line] = []
    for index, section in enumerate(document.sections):
        if index == 0 or {"registry", "runtimes"} & set(section.path):
            result += kept[bounds[index] : bounds[index + 1]]
    return result


def _gone(kept: list[_Line], wanted: list[_Line], why: str) -> list[Dropped]:
    gone = [
        line for line in kept if line not in wanted and line.text.strip() and not line.text.lstrip().startswith("#")
    ]
    return [_line(line, why) for line in gone]
