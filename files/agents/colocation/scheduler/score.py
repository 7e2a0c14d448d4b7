# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From a node's load and a pod to a score: 0 to 10, more load never scores higher.

A node's side of the sum is worked out once, when the node changes; with thousands of nodes a pod's side must be cheap.
For each weighted resource it is one to three straight lines, of which the highest counts:

    load = max(at + by_use * use + by_request * request)      use, request: the pod's

- measured:   (measured + pending or climb + use) / capacity
- by requests, where nothing fresh is known: (requested + request) / allocatable
- oversell, of real and requested as above: max(real, real + (requested - real) * factor, floor * requested)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from colocation.scheduler.config import Oversell, Profile
from colocation.scheduler.node_load import BOTH, RESOURCES, NodeLoad
from colocation.scheduler.pods import Amount

MOST = 10  # what kube-scheduler takes as an extender's best
FULL = math.inf  # the load of a node that takes no more
Judged = Literal["use", "last", "requests", "full"]  # last: the last sample, which is stale


class Line(NamedTuple):
    """A load that grows with the pod."""

    at: float
    by_use: float
    by_request: float


@dataclass(frozen=True, slots=True)
class Rules:
    """A profile, ready to be applied."""

    profile: Profile
    weights: tuple[float, float]  # add up to 1
    view: int  # which of the node's views
    weighted: tuple[int, ...]  # resources that have a weight

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(RESOURCES[resource] for resource in self.weighted)


class Side(NamedTuple):
    """One resource of a node."""

    weight: float
    lines: tuple[Line, ...]


Row = Sequence[Side] | None  # a node's part of the sum; None: it takes no more whatever the pod is


def rules_of(profile: Profile, view: int) -> Rules:
    """A profile's rules; `view` is where its window is among the node's views."""
    weights = [profile.weights.get(name, 0.0) for name in RESOURCES]  # type: ignore[call-overload]
    weighted = tuple(resource for resource in BOTH if weights[resource])
    return Rules(profile, (weights[0] / sum(weights), weights[1] / sum(weights)), view, weighted)


def judged(node: NodeLoad, rules: Rules, resource: int) -> Judged:
    """What a resource of a node is judged by."""
    policy = rules.profile.stale
    known = node.measured[2 * rules.view + resource] is not None
    if known and node.fresh[resource]:
        return "use"
    return policy if known or policy == "full" else "requests"


def sides(node: NodeLoad, rules: Rules) -> Row:
    """The node's part of the sum."""
    found = []
    for resource in rules.weighted:
        lines = _lines(node, rules, resource)
        if lines is None:
            return None
        found.append(Side(rules.weights[resource], lines))
    return tuple(found)


def _lines(node: NodeLoad, rules: Rules, resource: int) -> tuple[Line, ...] | None:
    how = judged(node, rules, resource)
    capacity, allocatable = node.node.capacity[resource], node.node.allocatable[resource]
    if how == "full" or capacity <= 0 or allocatable <= 0:
        return None
    asked = Line(node.requested[resource] / allocatable, 0.0, 1 / allocatable)
    if how == "requests":
        return (asked,)
    real = Line((node.expected(rules.view, resource, rules.profile.climb_seconds) or 0.0) / capacity, 1 / capacity, 0.0)
    oversell = rules.profile.oversell
    return (real,) if oversell is None else (real, *_oversold(real, asked, oversell))


def _oversold(real: Line, asked: Line, oversell: Oversell) -> tuple[Line, Line]:
    """real + (asked - real) * factor, and floor * asked."""
    factor, floor = oversell.factor, oversell.floor
    between = (r * (1 - factor) + a * factor for r, a in zip(real, asked, strict=True))
    return Line(*between), Line(*(floor * a for a in asked))


def load(node: Row, use: Amount, request: Amount, resources: Sequence[int], full_at: float) -> float:
    """The node's load with the pod, as a share; FULL where one resource would be full."""
    if node is None:
        return FULL
    total = 0.0
    for resource, (weight, lines) in zip(resources, node, strict=True):
        worst = -FULL
        for at, by_use, by_request in lines:
            here = at + by_use * use[resource] + by_request * request[resource]
            if not here < full_at:  # also what is no number
                return FULL
            if here > worst:
                worst = here
        total += weight * worst
    return total


def score(load: float, full_at: float) -> int:
    """1 to 9, 0 for a full node; 10 is kept for the one that is chosen."""
    if not 0 <= load < full_at:
        return 0
    return min(1 + int((MOST - 1) * (1 - load / full_at)), MOST - 1)
