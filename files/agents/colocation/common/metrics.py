# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Metrics, and their text for Prometheus (exposition format 0.0.4).

Three kinds, each with its labels fixed when it is made; a value may be set from any thread. What is only known when
somebody asks (memory, open files) is set by a function given to `Registry.before_rendering`.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class _Metric:
    """Name, meaning, and the names of the labels."""

    kind = "untyped"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        if not _METRIC_NAME.fullmatch(name) or not all(_LABEL_NAME.fullmatch(label) for label in labels):
            raise ValueError(f"{name}{tuple(labels)} are no names for Prometheus")
        self.name = name
        self.about = about
        self.labels = tuple(labels)
        self._lock = threading.Lock()

    def _key(self, labels: dict[str, str]) -> Labels:
        if set(labels) != set(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {tuple(labels)}")
        return tuple(labels[label] for label in self.labels)

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def _line(self, key: Labels, value: float, suffix: str = "", more: str = "") -> str:
        pairs = [f'{label}="{_escaped(text)}"' for label, text in zip(self.labels, key, strict=True)]
        within = ",".join([*pairs, more] if more else pairs)
        return f"{self.name}{suffix}{'{' + within + '}' if within else ''} {_number(value)}"


class Gauge(_Metric):
    """A value that goes up and down."""

    kind = "gauge"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, about, labels)
        self._values: dict[Labels, float] = {} if self.labels else {(): 0.0}

    def set(self, value: float, **labels: str) -> None:
        key = self._key(labels)
        with self._lock:
            self._values[key] = value

    def add(self, amount: float, **labels: str) -> None:
        key = self._key(labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def forget(self, **labels: str) -> None:
        """Leave out a combination of labels that is no more."""
        key = self._key(labels)
        with self._lock:
            self._values.pop(key, None)

    def value(self, **labels: str) -> float:
        return self._values.get(self._key(labels), 0.0)

    def lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted(self._values.items())
        for key, value in values:
            yield self._line(key, value)


class Counter(Gauge):
    """A count that only grows."""

    kind = "counter"

    def add(self, amount: float = 1, **labels: str) -> None:
        if amount < 0:
            raise ValueError(f"{self.name} can't shrink by {-amount}")
        super().add(amount, **labels)


class Histogram(_Metric):
    """How often a value was at most so large."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        super().__init__(name, about, labels)
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"the bounds of {name} must grow")
        self.bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = self._key(labels)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> Iterator[str]:
        with self._lock:
            known = sorted((key, list(counts), self._sums[key]) for key, counts in self._counts.items())
        for key, counts, total in known:
            so_far = 0
            for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
                so_far += count
                yield self._line(key, so_far, "_bucket", f'le="{_number(bound)}"')
            yield self._line(key, total, "_sum")
            yield self._line(key, so_far, "_count")


class Registry:
    """All metrics of an agent."""

    def __init__(self) -> None:
        self._metrics: dict[str, _Metric] = {}
        self._before: list[Callable[[], None]] = []

    def gauge(self, name: str, about: str, labels: Sequence[str] = ()) -> Gauge:
        metric = Gauge(name, about, labels)
        self._add(metric)
        return metric

    def counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        metric = Counter(name, about, labels)
        self._add(metric)
        return metric

    def histogram(self, name: str, about: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        metric = Histogram(name, about, bounds, labels)
        self._add(metric)
        return metric

    def before_rendering(self, update: Callable[[], None]) -> None:
        self._before.append(update)

    def render(self) -> str:
        """The text that Prometheus reads."""
        for update in self._before:
            update()
        return "".join(line + "\n" for metric in self._metrics.values() for line in _family(metric))

    def _add(self, metric: _Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric {metric.name} already")
        self._metrics[metric.name] = metric


def _family(metric: _Metric) -> Iterator[str]:
    about = metric.about.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {metric.name} {about}"
    yield f"# TYPE {metric.name} {metric.kind}"
    yield from metric.lines()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
