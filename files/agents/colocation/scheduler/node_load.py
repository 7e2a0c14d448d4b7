# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One node's load: what was measured, what is in flight (placed since, so not measured yet), what is requested.

In flight is judged by what the metrics show, not by a guess at their lag. For each view of each resource stands a base:
the load without the pods in flight. base + flight is what the node will come to; as the measured value m grows by those
pods, what is pending shrinks, and it is never counted twice:

    pending = max(0, base + flight - m)      and always      0 <= pending <= flight, because base <= m

A new pod begins on top of all that is expected so far (base >= m - flight before it). A new sample below the base
lowers it: other load ended. A pod whose time is over is measured by now: its part moves into the base, as far as m
shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount
from colocation.scheduler.series import Series, View

RESOURCES = ("cpu", "memory")
BOTH = (0, 1)


class NodeLoad:
    """Amounts are cores and bytes; lists are by resource, or by view and resource."""

    __slots__ = ("base", "climb", "flight", "fresh", "in_flight", "measured", "node", "requested", "sampled", "series")

    def __init__(self, node: Node, views: int) -> None:
        self.node = node
        self.series = (Series(), Series())
        self.sampled: list[float | None] = [None, None]  # when, by our clock
        self.fresh = [False, False]
        self.measured: list[float | None] = [None] * (2 * views)
        self.base = [0.0] * (2 * views)
        self.climb = [0.0, 0.0]  # in a second
        self.flight = [0.0, 0.0]
        self.in_flight = 0  # pods
        self.requested = [0.0, 0.0]

    def sample(self, resource: int, time: float, share: float, views: Sequence[View], keep: float) -> bool:
        """Take a measured share of the capacity; False if it is no news."""
        series = self.series[resource]
        if not series.add(time, share, keep):
            return False
        self.sampled[resource] = time
        self._look(resource, views)
        return True

    def _look(self, resource: int, views: Sequence[View]) -> None:
        capacity = self.node.capacity[resource]
        series = self.series[resource]
        for number, view in enumerate(views):
            place = 2 * number + resource
            share = series.seen(view)
            if share is None:
                continue
            seen = share * capacity
            first = self.measured[place] is None
            self.measured[place] = seen
            self.base[place] = seen if first else min(self.base[place], seen)
        self.climb[resource] = series.slope() * capacity

    def resize(self, node: Node, views: Sequence[View]) -> None:
        """The node has other addresses, or another size."""
        other = node.capacity != self.node.capacity
        self.node = node
        if other:
            for resource in BOTH:
                self._look(resource, views)

    def take_off(self, use: Amount) -> None:
        """A pod begins to be in flight."""
        for place, seen in enumerate(self.measured):
            if seen is not None:
                self.base[place] = max(self.base[place], seen - self.flight[place % 2])
        for resource in BOTH:
            self.flight[resource] += use[resource]
        self.in_flight += 1

    def land(self, use: Amount) -> None:
        """A pod in flight is measured by now."""
        for place, seen in enumerate(self.measured):
            if seen is not None:
                self.base[place] = min(self.base[place] + use[place % 2], seen)
        self.vanish(use)

    def vanish(self, use: Amount) -> None:
        """A pod in flight is gone."""
        self.in_flight -= 1
        for resource in BOTH:
            left = self.flight[resource] - use[resource] if self.in_flight else 0.0  # sums of floats don't end at 0
            self.flight[resource] = max(left, 0.0)

    def without(self, request: Amount, use: Amount | None) -> NodeLoad:
        """The same node, if a pod had not come; `use` of one in flight. What it uses already is measured, and stays."""
        other = copy.copy(self)
        other.flight, other.requested = list(self.flight), list(self.requested)
        other.request(request, -1)
        if use is not None:
            other.vanish(use)
        return other

    def request(self, amount: Amount, sign: int) -> None:
        """A pod came (1) or went (-1)."""
        for resource in BOTH:
            self.requested[resource] = max(self.requested[resource] + sign * amount[resource], 0.0)

    def pending(self, view: int, resource: int) -> float:
        """What is in flight and not measured yet."""
        place = 2 * view + resource
        seen = self.measured[place]
        if seen is None:
            return self.flight[resource]
        return min(max(self.base[place] + self.flight[resource] - seen, 0.0), self.flight[resource])

    def expected(self, view: int, resource: int, climb_seconds: float) -> float | None:
        """The load to count with: measured, and either what is in flight or where it climbs to, whichever is more, for
        a pod in flight climbs too. None if it was never measured."""
        seen = self.measured[2 * view + resource]
        if seen is None:
            return None
        return seen + max(self.pending(view, resource), self.climb[resource] * climb_seconds)
