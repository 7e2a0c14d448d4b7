# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The page that shows a telling of the story: one file, no script, nothing fetched, light or dark as the reader's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .charts import CHARTS, Chart, nodes_in, plot_of
from .plot import clock, draw, safe, shown, swatch
from .timeline import Key, Mark, Series, rows

TABLE_ROWS = 60
OUTCOMES = {"done": "✓", "failed": "✗", "left out": "–", "stopped": "■", "runs": "…"}
STYLE = """
:root{color-scheme:light dark;--back:#fff;--ink:#1c2330;--soft:#5d6878;--rule:#d9dee5;--card:#f6f7f9;--bad:#b3261e;
--good:#12734a;--t0:#1f6fb2;--t1:#c2570c;--t2:#12734a;--t3:#7a2fa0;--t4:#a3265a;--t5:#6b6100}
@media(prefers-color-scheme:dark){:root{--back:#14181f;--ink:#e4e8ee;--soft:#9aa5b4;--rule:#333b47;--card:#1c222b;
--bad:#ff8a80;--good:#63d19e;--t0:#6db3f2;--t1:#ff9d57;--t2:#63d19e;--t3:#cf9bf0;--t4:#ff8fb8;--t5:#d8ca5a}}
body{margin:0 auto;max-width:58rem;padding:1.5rem 1rem 4rem;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.25rem;margin:2.5rem 0 .3rem}
h3{font-size:1.05rem;margin:1.8rem 0 .1rem}p{margin:.3rem 0 .8rem}.soft{color:var(--soft)}
.verdict{font-weight:600}.done{color:var(--good)}.failed,.stopped{color:var(--bad)}
ol{list-style:none;margin:1rem 0;padding:0}ol>li{display:grid;grid-template-columns:2.2rem 1fr auto;gap:0 .6rem;
padding:.55rem 0;border-top:1px solid var(--rule)}li .label{font-weight:600}li .took{color:var(--soft)}
li .seen{grid-column:2/-1;margin:0;color:var(--soft);white-space:pre-wrap;font:13px/1.45 ui-monospace,monospace;
overflow-x:auto}
figure{margin:0}svg.plot{width:100%;height:auto;display:block}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;padding:0;margin:.2rem 0;font-size:.9rem}
.swatch{width:28px;height:10px;margin-right:.4rem}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}svg text.empty{font-size:15px}svg text.mark{font-weight:600}
.grid{stroke:var(--rule);stroke-width:1}.step{stroke:var(--soft);stroke-width:1;stroke-dasharray:1 3;fill:none}
.guide{stroke:var(--bad);stroke-width:1;stroke-dasharray:6 4}svg text.note{fill:var(--bad)}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round}
.tone0{stroke:var(--t0)}.tone1{stroke:var(--t1)}.tone2{stroke:var(--t2)}.tone3{stroke:var(--t3)}.tone4{stroke:var(--t4)}
.tone5{stroke:var(--t5)}.dot{stroke-width:2;fill:var(--back)}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--soft)}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .7rem .15rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
td.text{text-align:left;white-space:normal;min-width:6rem}th{font-weight:600}
pre{background:var(--card);padding:.8rem;overflow-x:auto;font:13px/1.45 ui-monospace,monospace}
@media print{details>*{display:block}body{max-width:none}}
"""


@dataclass(frozen=True, slots=True)
class Told:
    """One step as it went. `outcome` is one of OUTCOMES."""

    label: str
    title: str
    line: str
    begin: float
    end: float
    outcome: str
    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that an agent said to the API."""

    at: float
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Telling:
    """All that the page shows. `texts` are what programs printed, by title."""

    title: str
    when: str
    told: tuple[Told, ...]
    series: Series
    events: tuple[Happened, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def page(telling: Telling) -> str:
    """The whole file."""
    parts = [*_head(telling), *_steps(telling.told), *_plots(telling), *_events(telling.events)]
    parts += [f"<h2>{safe(title)}</h2><pre>{safe(text)}</pre>" for title, text in telling.texts]
    parts.append('<p class="soft">Made by ./demo. Nothing in this page is fetched from anywhere.</p>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{safe(telling.title)}</title><style>{STYLE}</style></head><body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body></html>\n"
    )


def verdict(told: Sequence[Told]) -> tuple[str, str]:
    """How it went: a class of the style, and a sentence."""
    wrong = next((one for one in told if one.outcome in ("failed", "stopped")), None)
    took = clock(max((one.end for one in told), default=0.0))
    if wrong is not None:
        how = "failed" if wrong.outcome == "failed" else "was interrupted"
        return wrong.outcome, f"It {how} in step {wrong.label}, {wrong.title}, after {took}."
    done = sum(one.outcome == "done" for one in told)
    left = [one.title for one in told if one.outcome == "left out"]
    rest = f" Left out: {', '.join(left)}." if left else ""
    return "done", f"All {done} steps went as told, in {took}.{rest}"


def _head(telling: Telling) -> Iterator[str]:
    kind, sentence = verdict(telling.told)
    yield f'<h1>{safe(telling.title)}</h1><p class="soft">{safe(telling.when)}</p>'
    yield f'<p class="verdict {kind}">{safe(sentence)}</p>'


def _steps(told: Sequence[Told]) -> Iterator[str]:
    yield "<h2>The story</h2><ol>"
    for one in told:
        sign = OUTCOMES.get(one.outcome, "?")
        seen = f'<pre class="seen">{safe(chr(10).join(one.seen))}</pre>' if one.seen else ""
        took = "" if one.outcome == "left out" else clock(one.end - one.begin)
        yield (
            f'<li><span class="label">{safe(one.label)} <span class="{safe(one.outcome)}" title="{safe(one.outcome)}">'
            f"{sign}</span></span><span><b>{safe(one.title)}</b><br>{safe(one.line)}</span>"
            f'<span class="took">{took}</span>{seen}</li>'
        )
    yield "</ol>"


def _plots(telling: Telling) -> Iterator[str]:
    marks = [Mark(one.label, one.title, one.begin, one.end) for one in telling.told if one.outcome != "left out"]
    times = [sample.at for samples in telling.series.values() for sample in samples]
    begin = 0.0
    end = max([one.end for one in telling.told] + times, default=1.0)
    nodes = nodes_in(telling.series)
    yield "<h2>What was measured</h2><p>The numbers above the plots are the steps; times are from the beginning.</p>"
    for chart in CHARTS:
        plot = plot_of(chart, telling.series, nodes)
        legend = "".join(f"<li>{swatch(line)}{safe(line.name)}</li>" for line in plot.lines)
        yield (
            f'<section><h3>{safe(chart.title)}</h3><figure><figcaption class="soft">{safe(chart.about)}</figcaption>'
            f'<ul class="legend">{legend}</ul>{draw(plot, marks, begin, end)}</figure>'
            f"{_figures(chart, telling.series, nodes)}</section>"
        )


def _figures(chart: Chart, series: Series, nodes: Sequence[str]) -> str:
    """The plot as a table, for those who read it better."""
    keys = [Key(chart.key, node, kind) for node in nodes for kind in chart.kinds]
    keys = [key for key in keys if key in series]
    table = rows(series, keys, TABLE_ROWS)
    if not table:
        return ""
    head = "".join(f'<th scope="col">{safe(f"{key.node} {chart.kinds[key.kind]}")}</th>' for key in keys)
    body = "".join(
        f'<tr><th scope="row">{clock(at)}</th>{"".join(f"<td>{shown(value)}</td>" for value in values)}</tr>'
        for at, values in table
    )
    return (
        f'<details><summary>The figures, in {safe(chart.unit)}</summary><div class="wide"><table><thead><tr>'
        f'<th scope="col">time</th>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def _events(events: Sequence[Happened]) -> Iterator[str]:
    if not events:
        return
    yield "<h2>What the agents did</h2><p>Their Events, as <code>kubectl get events</code> has them.</p>"
    yield '<div class="wide"><table>'
    yield '<thead><tr><th scope="col">time</th><th>node</th><th>what</th><th>why</th></tr></thead><tbody>'
    for one in sorted(events, key=lambda event: event.at):
        cells = "".join(f'<td class="text">{safe(text)}</td>' for text in (one.node, one.reason, one.message))
        yield f'<tr><th scope="row">{clock(max(one.at, 0.0))}</th>{cells}</tr>'
    yield "</tbody></table></div>"
