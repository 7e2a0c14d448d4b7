# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where measured use comes from: one interface, three sources. A source blocks and is asked by one thread."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from colocation.scheduler.cluster import Reading
from colocation.scheduler.node_load import RESOURCES
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount

MOST_SHARE = 1.5  # of a node's capacity; more is no measured value but a wrong unit
LEAST_MEMORY = 0.011  # that some node uses; as a percentage, a ratio is at most 0.01
Readings = tuple[Reading | None, Reading | None]  # cpu, memory


class SourceError(Exception):
    """Nothing could be had; the text says from where, why and what to do."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """One round."""

    nodes: Mapping[str, Readings]
    pods: Mapping[str, Amount] = field(default_factory=lambda: MappingProxyType({}))  # by namespace/name
    problems: tuple[str, ...] = ()  # what a human should know although it worked
    # by resource: why none of its values is here
    useless: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))


class Source(Protocol):
    """Something that measures."""

    @property
    def name(self) -> str:
        """What it is, and where."""

    def sample(self, nodes: Mapping[str, Node]) -> Sampling:
        """Measure these nodes; SourceError where nothing can be had."""


def share_of(amount: float, node: Node | None, resource: int) -> float:
    """An absolute amount as a share of the node's capacity; no number where that is not known."""
    capacity = node.capacity[resource] if node else 0.0
    return amount / capacity if capacity > 0 else math.nan


def plausible(share: float) -> float:
    """The share, or no number if it can't be one."""
    return share if 0 <= share <= MOST_SHARE else math.nan


def units_look_wrong(shares: Mapping[str, float], resource: int) -> str | None:
    """What the values of a round say about their unit. A node that runs uses some of its memory; of its processor an
    idle one may use next to nothing, so low values tell nothing there."""
    known = [share for share in shares.values() if not math.isnan(share)]
    too_much = sum(share > MOST_SHARE for share in known)
    name = RESOURCES[resource]
    if too_much * 2 > len(known):
        return (
            f"{name}: {too_much} of {len(known)} nodes use over {MOST_SHARE:.0%} of what they have; is it a percentage?"
        )
    if resource == 1 and known and max(known) < LEAST_MEMORY:
        return f"{name}: no node uses over {max(known):.2%} of what it has; is it a ratio, not a percentage?"
    return None
