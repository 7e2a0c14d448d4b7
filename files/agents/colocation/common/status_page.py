# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The status as a page for humans: one self-contained document, no script, nothing loaded from anywhere."""

from __future__ import annotations

import re
from html import escape

from colocation.common.status import Cell, Status, Table, shown

STYLE = """
:root{color-scheme:light dark;--ground:#f6f7f9;--card:#fff;--text:#1c2330;--soft:#5d6878;--line:#e1e5eb;
--good:#12734a;--good-ground:#dcf3e7;--bad:#a3211b;--bad-ground:#fbe3e1;--meter:#cfe0f2}
@media(prefers-color-scheme:dark){:root{--ground:#12161c;--card:#1b2129;--text:#e6eaf0;--soft:#98a3b3;--line:#2c343f;
--good:#7ddcae;--good-ground:#173a2b;--bad:#ff9d96;--bad-ground:#4a1e1c;--meter:#274563}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:2rem 1.25rem 3rem}
header{display:flex;flex-wrap:wrap;align-items:center;gap:.75rem;margin-bottom:.25rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1rem;margin:0 0 .5rem}
.state{padding:.15rem .7rem;border-radius:1rem;font-weight:600;font-size:.85rem}
.good{color:var(--good);background:var(--good-ground)}.bad{color:var(--bad);background:var(--bad-ground)}
.soft{color:var(--soft)}section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;
padding:1rem 1.1rem;margin-top:1rem;overflow-x:auto}
section.problems{border-color:var(--bad)}.problems ul{margin:0;padding-left:1.2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem 1.2rem .35rem 0;vertical-align:top;
overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600;font-size:.8rem;border-bottom:1px solid var(--line)}
tr+tr td{border-top:1px solid var(--line)}.number{text-align:right;font-variant-numeric:tabular-nums}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.5rem;margin:0}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}.drawing svg{display:block;max-width:100%;height:auto}
.share{background:linear-gradient(var(--meter),var(--meter)) left center/calc(var(--of)*1%) 70% no-repeat;
text-align:right;padding:0 .3rem;font-variant-numeric:tabular-nums;min-width:5rem}
footer{margin-top:1.5rem;font-size:.85rem}a{color:inherit}
"""
_SHARE = re.compile(r"\d+(\.\d+)?%")
_AMOUNT = re.compile(r"-?\d+(\.\d+)?(%| (s|ms|[KMG]iB))?")


def to_html(status: Status) -> str:
    """The document at /."""
    state = '<span class="state good">healthy</span>'
    if not status.healthy:
        state = '<span class="state bad">not healthy</span>'
    drawing = f'<section class="drawing">{status.drawing()}</section>' if status.drawing else ""
    tables = (_table(table) for table in status.tables)
    parts = [_problems(status.problems), _facts(status.facts), drawing, *tables]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta http-equiv="refresh" content="10">'
        f"<title>{escape(status.agent)}</title><style>{STYLE}</style></head><body><main>"
        f'<header><h1>{escape(status.agent)}</h1>{state}<span class="soft">{escape(status.version)}</span></header>'
        f'<div class="soft">{escape(status.summary)}</div>{"".join(parts)}'
        '<footer class="soft"><a href="status">status as JSON</a> · <a href="metrics">metrics</a> · '
        '<a href="healthz">health</a> · renewed every 10 s</footer></main></body></html>\n'
    )


def _problems(problems: tuple[str, ...]) -> str:
    if not problems:
        return ""
    items = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<section class="problems"><h2>Problems</h2><ul>{items}</ul></section>'


def _facts(facts: tuple[tuple[str, Cell], ...]) -> str:
    if not facts:
        return ""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(shown(value))}</dd>" for name, value in facts)
    return f"<section><dl>{items}</dl></section>"


def _table(table: Table) -> str:
    columns = ([row[column] for row in table.rows] for column in range(len(table.columns)))
    numeric = [_are_figures(cells) for cells in columns]
    marks = [' class="number"' if number else "" for number in numeric]
    head = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(table.columns, marks, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{mark}>{_cell(cell)}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in table.rows
    )
    body = f"<table><tr>{head}</tr>{rows}</table>" if table.rows else '<div class="soft">none</div>'
    return f"<section><h2>{escape(table.title)}</h2>{body}</section>"


def _cell(cell: Cell) -> str:
    """A share is a bar as well: a column of them is seen at a glance."""
    text = shown(cell)
    if isinstance(cell, str) and _SHARE.fullmatch(cell):
        return f'<div class="share" style="--of:{min(float(cell[:-1]), 100.0):g}">{text}</div>'
    return escape(text)


def _are_figures(column: list[Cell]) -> bool:
    """Figures stand in a column by their ends, also where some are missing."""
    told = [cell for cell in column if cell not in (None, "")]
    return bool(told) and all(map(_is_figure, told))


def _is_figure(cell: Cell) -> bool:
    """A number, or an amount with its unit."""
    if isinstance(cell, str):
        return _AMOUNT.fullmatch(cell) is not None
    return isinstance(cell, int | float) and not isinstance(cell, bool)
