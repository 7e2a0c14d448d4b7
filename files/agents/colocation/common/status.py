# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How an agent is, in one value: JSON for programs, text for a terminal; `status_page` makes HTML of it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal length under their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.title!r} does not fit its columns {self.columns}")


@dataclass(frozen=True, slots=True)
class Status:
    """What a human or a health gate wants to know. Without problems the agent is healthy."""

    agent: str
    version: str
    summary: str
    problems: tuple[str, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    # SVG for the page alone, made when somebody looks; who makes it escapes the names in it
    drawing: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @property
    def healthy(self) -> bool:
        return not self.problems


def to_json(status: Status) -> str:
    """The document at /status."""
    document = {
        "agent": status.agent,
        "version": status.version,
        "healthy": status.healthy,
        "summary": status.summary,
        "problems": list(status.problems),
        "facts": dict(status.facts),
        "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in status.tables],
    }
    return json.dumps(document, indent=1) + "\n"


def from_json(text: str) -> Status:
    """What `to_json` wrote; a ValueError for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        return Status(
            str(document["agent"]),
            str(document["version"]),
            str(document["summary"]),
            tuple(str(problem) for problem in document["problems"]),
            tuple((str(name), _cell(value)) for name, value in document["facts"].items()),
            tuple(_table(table) for table in document["tables"]),
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ValueError(f"this is no status document: {problem}") from None


def _table(document: dict[str, Any]) -> Table:
    rows = tuple(tuple(_cell(cell) for cell in row) for row in document["rows"])
    return Table(str(document["title"]), tuple(str(name) for name in document["columns"]), rows)


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} in a cell")


def to_text(status: Status, color: bool = False) -> str:
    """The same for a terminal; control characters in names can't reach it."""
    state = "healthy" if status.healthy else "NOT HEALTHY"
    if color:
        state = f"\033[{'32' if status.healthy else '1;31'}m{state}\033[0m"
    lines = [f"{printable(status.agent)} {printable(status.version)}: {state}, {printable(status.summary)}"]
    lines += [f"  ! {printable(problem)}" for problem in status.problems]
    if status.facts:
        lines += ["", *_columns(((name, shown(value)) for name, value in status.facts))]
    for table in status.tables:
        rows = [tuple(name.upper() for name in table.columns), *(tuple(map(shown, row)) for row in table.rows)]
        lines += ["", printable(table.title), *(_columns(rows) if table.rows else ["  none"])]
    return "\n".join(lines) + "\n"


def _columns(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(padded)).rstrip()


def shown(value: Cell) -> str:
    """A cell as a human reads it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def printable(text: str) -> str:
    """The text with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)
