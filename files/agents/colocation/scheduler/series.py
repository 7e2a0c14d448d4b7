# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What was measured of one node and resource in the last minutes, and what that says: last, mean, percentile, peak, and
whether it climbs. Two arrays of numbers, because there are thousands of these. No clock: times are arguments.
"""

from __future__ import annotations

import math
from array import array
from typing import Literal, NamedTuple

LEAST_FOR_SLOPE = 4
SLOPE_SECONDS = 120.0
MOST = 100.0  # times the capacity; more was never measured


class View(NamedTuple):
    """How to look at a series."""

    kind: Literal["last", "mean", "percentile", "peak"]
    seconds: float = 0.0
    percentile: float = 0.0


class Series:
    """Samples in the order of their times."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times = array("d")
        self.values = array("d")

    def add(self, time: float, value: float, keep: float) -> bool:
        """Take a sample and forget what is older than `keep` seconds; False if it is no news, or no measured value."""
        if not 0 <= value <= MOST or (self.times and time <= self.times[-1]):
            return False
        self.times.append(time)
        self.values.append(value)
        while len(self.times) > 1 and self.times[0] < time - keep:
            del self.times[0], self.values[0]
        return True

    def seen(self, view: View) -> float | None:
        """The value that counts; None if nothing was measured."""
        if not self.times:
            return None
        if view.kind == "last":
            return self.values[-1]
        values = self._since(self.times[-1] - view.seconds)
        if view.kind == "mean":
            return sum(values) / len(values)
        if view.kind == "peak":
            return max(values)
        rank = math.ceil(len(values) * view.percentile / 100)
        return sorted(values)[max(rank - 1, 0)]

    def slope(self) -> float:
        """How much it grows in a second, by least squares; 0 where there are too few samples, or it does not grow."""
        values = self._since(self.times[-1] - SLOPE_SECONDS) if self.times else self.values
        count = len(values)
        if count < LEAST_FOR_SLOPE:
            return 0.0
        times = self.times[-count:]
        mean_time, mean_value = sum(times) / count, sum(values) / count
        spread = sum((time - mean_time) ** 2 for time in times)
        together = sum((t - mean_time) * (v - mean_value) for t, v in zip(times, values, strict=True))
        return max(together / spread, 0.0) if spread > 0 else 0.0

    def _since(self, time: float) -> array[float]:
        first = 0
        while self.times[first] < time:
            first += 1
        return self.values[first:] if first else self.values
