# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Values over time: what was measured, by chart, node and kind. Times are seconds since the beginning.

A line is broken where nothing was measured for a while or where a value is no number: what was not seen is not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

GAP_SECONDS = 25.0  # five looks that brought nothing
LARGEST = 1e18


class Key(NamedTuple):
    """What a series is of. Charts name their kinds; nodes come as they are found."""

    chart: str
    node: str
    kind: str


class Sample(NamedTuple):
    """One measured value."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A step of the story on the axis of time. `end` is None while it runs."""

    label: str
    title: str
    begin: float
    end: float | None = None


Series = Mapping[Key, Sequence[Sample]]


def is_number(value: float) -> bool:
    """Whether a value can be a measured one, and be drawn beside others."""
    return math.isfinite(value) and abs(value) <= LARGEST


class Timeline:
    """All series of one telling, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._samples: dict[Key, list[Sample]] = {}

    def record(self, at: float, values: Mapping[Key, float]) -> None:
        """Add what was measured at one time; values that are no numbers stay, as gaps."""
        for key, value in values.items():
            self._samples.setdefault(key, []).append(Sample(at, float(value)))

    def series(self) -> Series:
        """What there is by now."""
        return {key: tuple(samples) for key, samples in self._samples.items()}

    def last(self, key: Key) -> float | None:
        """The latest number of a series."""
        return next((s.value for s in reversed(self._samples.get(key, ())) if is_number(s.value)), None)


def runs(samples: Sequence[Sample], gap: float = GAP_SECONDS) -> Iterator[list[Sample]]:
    """The unbroken parts of a series, in the order of time."""
    part: list[Sample] = []
    for sample in sorted(samples, key=lambda one: one.at):
        broken = not is_number(sample.value)
        if part and (broken or sample.at - part[-1].at > gap):
            yield part
            part = []
        if not broken:
            part.append(sample)
    if part:
        yield part


def thinned(samples: Sequence[Sample], most: int) -> list[Sample]:
    """No more than about `most` samples with the same shape: of each slice of time the first, last, lowest, highest."""
    if len(samples) <= max(most, 4):
        return list(samples)
    begin, end = samples[0].at, samples[-1].at
    width = (end - begin) / max(1, most // 4) or 1.0
    kept: list[Sample] = []
    for part in _slices(samples, begin, width):
        picked = {part[0], part[-1], min(part, key=lambda s: s.value), max(part, key=lambda s: s.value)}
        kept.extend(sorted(picked))
    return kept


def _slices(samples: Sequence[Sample], begin: float, width: float) -> Iterator[list[Sample]]:
    part: list[Sample] = []
    number = 0
    for sample in samples:
        here = int((sample.at - begin) / width)
        if part and here != number:
            yield part
            part = []
        number = here
        part.append(sample)
    if part:
        yield part


def rows(series: Series, keys: Sequence[Key], most: int) -> list[tuple[float, tuple[float | None, ...]]]:
    """A table of some series: a row for each slice of time, with the last number in it; None where there was none."""
    numbers = {key: [s for s in series.get(key, ()) if is_number(s.value)] for key in keys}
    times = [sample.at for samples in numbers.values() for sample in samples]
    if not times:
        return []
    begin, end = min(times), max(times)
    width = max((end - begin) / max(1, most - 1), 1e-9)
    table: dict[int, dict[Key, Sample]] = {}
    for key, samples in numbers.items():
        for sample in samples:
            cells = table.setdefault(int((sample.at - begin) / width), {})
            if key not in cells or cells[key].at <= sample.at:
                cells[key] = sample
    return [
        (max(s.at for s in cells.values()), tuple(cells[key].value if key in cells else None for key in keys))
        for dummy, cells in sorted(table.items())
    ]


def to_document(series: Series) -> list[dict[str, Any]]:
    """For programs; what is no number is null, as JSON has it."""
    return [
        {**key._asdict(), "samples": [[s.at, s.value if math.isfinite(s.value) else None] for s in samples]}
        for key, samples in series.items()
    ]


def from_document(document: Iterable[Mapping[str, Any]]) -> Series:
    """What `to_document` made."""
    return {
        Key(str(one["chart"]), str(one["node"]), str(one["kind"])): tuple(
            Sample(float(at), math.nan if value is None else float(value)) for at, value in one["samples"]
        )
        for one in document
    }
