# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Lines over time as SVG that stands in a page: colours come from the page's style, so that it follows light and dark.

Colour tells the node and the dashes tell the kind, so that neither is needed to know the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from .timeline import Mark, Sample, is_number, runs, thinned

WIDTH, HEIGHT = 880, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 26, 26
TONES = 6  # the page's style has so many colours
DASHES = ("", "7 4", "2 4", "12 4 2 4")
POINTS = 900  # more than one a pixel shows nothing more
TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a plot."""

    name: str
    samples: Sequence[Sample]
    tone: int = 0
    dash: int = 0


@dataclass(frozen=True, slots=True)
class Plot:
    """What to draw. `guides` are levels that mean something; `stepped` for what is counted, not measured."""

    name: str  # small letters and dashes: the ids in the page begin with it
    title: str
    unit: str
    lines: Sequence[Line]
    guides: Mapping[str, float] = field(default_factory=dict)
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    """From seconds and values to the picture."""

    begin: float
    end: float
    top: float
    bottom: float

    def x(self, at: float) -> float:
        share = (at - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def draw(plot: Plot, marks: Sequence[Mark], begin: float, end: float) -> str:
    """The picture."""
    scale = _scale(plot, begin, end)
    body = [*_grid(plot, scale), *_marks(marks, scale), *_guides(plot, scale), *_lines(plot, scale)]
    if not any(is_number(sample.value) for line in plot.lines for sample in line.samples):
        body.append(_text(WIDTH / 2, HEIGHT / 2, "Nothing was measured.", "empty", "middle"))
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{plot.name}-title {plot.name}-text">'
        f'<title id="{plot.name}-title">{safe(plot.title)}</title>'
        f'<desc id="{plot.name}-text">{safe(described(plot))}</desc>{"".join(body)}</svg>'
    )


def swatch(line: Line) -> str:
    """A piece of the line for a legend."""
    return f'<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true"><path d="M1 5H27" {_look(line)}/></svg>'


def described(plot: Plot) -> str:
    """The picture in words."""
    parts = []
    for line in plot.lines:
        values = [s.value for s in line.samples if is_number(s.value)]
        if values:
            low, high, last = shown(min(values)), shown(max(values)), shown(values[-1])
            parts.append(f"{line.name}: between {low} and {high}, at the end {last}")
    return f"In {plot.unit}. {'; '.join(parts)}." if parts else "Nothing was measured."


def shown(value: float | None) -> str:
    """A number as people read it."""
    if value is None or not math.isfinite(value):
        return "–"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if letter == "k" else size)
            return f"{scaled:.3g}\N{NARROW NO-BREAK SPACE}{letter}" if abs(scaled) < 1e5 else f"{value:.1e}"
    if value == int(value):
        return str(int(value))
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.005 else f"{value:.1g}"


def clock(seconds: float) -> str:
    """A time since the beginning."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def safe(text: str) -> str:
    """Text for a page: nothing in it that a browser would obey, nor that no encoding can write."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values from `low` to `high`, both included, at equal distances."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _scale(plot: Plot, begin: float, end: float) -> _Scale:
    values = [s.value for line in plot.lines for s in line.samples if is_number(s.value)]
    values += [value for value in plot.guides.values() if is_number(value)]
    low, high = min([0.0, *values]), max([0.0, *values])
    if high - low < 1e-12:
        high = low + 1.0
    levels = _levels(plot, low, high)
    return _Scale(begin, max(end, begin + 1.0), levels[-1], levels[0])


def _levels(plot: Plot, low: float, high: float) -> list[float]:
    """The ticks of values; what is counted has none between whole numbers."""
    return ticks(low, high, max(1, min(5, int(high - low)))) if plot.stepped else ticks(low, high)


def _grid(plot: Plot, scale: _Scale) -> Iterator[str]:
    right = WIDTH - RIGHT
    for level in _levels(plot, scale.bottom, scale.top):
        y = scale.y(level)
        yield f'<path class="grid" d="M{LEFT} {y}H{right}"/>{_text(LEFT - 8, y + 4, shown(level), "tick", "end")}'
    yield _text(LEFT - 8, TOP - 12, plot.unit, "tick", "end")
    length = scale.end - scale.begin
    step = next((s for s in TIME_STEPS if length / s <= 12), length / 12)
    for number in range(int(length / step + 1e-9) + 1):
        at = scale.begin + number * step
        yield _text(scale.x(at), HEIGHT - 8, clock(at - scale.begin), "tick", "middle")


def _marks(marks: Sequence[Mark], scale: _Scale) -> Iterator[str]:
    """A line where each step begins, with its label above; labels that would touch are left out."""
    free = float("-inf")
    for mark in marks:
        x = scale.x(mark.begin)
        name = f"<title>{safe(mark.label)}: {safe(mark.title)}</title>"
        label = ""
        if x >= free:
            label = _text(x + 3, TOP - 4, mark.label, "mark", "start")
            free = x + 10 + 7 * len(mark.label)
        yield f'<g>{name}<path class="step" d="M{x} {TOP - 14}V{HEIGHT - BOTTOM}"/>{label}</g>'


def _guides(plot: Plot, scale: _Scale) -> Iterator[str]:
    for name, value in plot.guides.items():
        if is_number(value):
            y = scale.y(value)
            yield f'<path class="guide" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
            yield _text(WIDTH - RIGHT - 4, y - 4, name, "note", "end")


def _lines(plot: Plot, scale: _Scale) -> Iterator[str]:
    for line in plot.lines:
        for run in runs(line.samples):
            points = [(scale.x(s.at), scale.y(s.value)) for s in thinned(run, POINTS)]
            if len(points) == 1:
                x, y = points[0]
                yield f'<circle class="dot tone{line.tone % TONES}" cx="{x}" cy="{y}" r="3"/>'
            else:
                yield f'<path d="{_path(points, plot.stepped)}" {_look(line)}/>'


def _path(points: Sequence[tuple[float, float]], stepped: bool) -> str:
    (x, y), *others = points
    return f"M{x} {y}" + "".join(f"H{x}V{y}" if stepped else f"L{x} {y}" for x, y in others)


def _look(line: Line) -> str:
    dash = DASHES[line.dash % len(DASHES)]
    return f'class="line tone{line.tone % TONES}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}">{safe(text)}</text>'
