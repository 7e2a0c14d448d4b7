# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Why a node scores as it does: for a profile and a pod, each node's inputs, estimate and score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colocation.common.status import Cell, Table
from colocation.scheduler.cluster import Cluster
from colocation.scheduler.node_load import RESOURCES, NodeLoad
from colocation.scheduler.ranking import Need
from colocation.scheduler.score import FULL, Row, Rules, judged, load, score, sides

GIB = float(1 << 30)
COLUMNS = ("node", "score", "load", "resource", "judged by", "measured", "age s", "in flight", "climb", "requested")


@dataclass(frozen=True, slots=True)
class Input:
    """One resource of a node, as shares of its capacity; requested as a share of what is allocatable."""

    resource: str
    judged_by: str
    measured: float | None
    age: float | None  # seconds
    in_flight: float
    climb: float
    requested: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A node, best first in a list of these. `load` is None where it takes no more."""

    node: str
    score: int
    load: float | None
    inputs: tuple[Input, ...]


def rows_for(cluster: Cluster, profile: str, pod: str = "") -> dict[str, Row]:
    """All nodes' sides of the sum for the pod with that UID, which does not count against itself."""
    ranking = cluster.rankings[profile]
    return ranking.rows(cluster.nodes) | {n: sides(node, ranking.rules) for n, node in cluster.without(pod).items()}


def by_load(rows: Mapping[str, Row], rules: Rules, need: Need) -> list[str]:
    """The names of nodes for such a pod, the best first, those that take no more last."""
    loads = {name: load(row, *need, rules.weighted, rules.profile.full_at) for name, row in rows.items()}
    return sorted(loads, key=lambda name: (loads[name], name))


def explain(
    cluster: Cluster, profile: str, need: Need, now: float, names: Iterable[str], pod: str = ""
) -> list[Explanation]:
    """Those of the named nodes that there are, as they are scored now for such a pod; one with that UID does not count
    against itself, as when it was scored."""
    ranking, apart = cluster.rankings[profile], cluster.without(pod)
    found = []
    for name in names:
        if node := apart.get(name):
            found.append(_explained(node, sides(node, ranking.rules), ranking.rules, need, now))
        elif node := cluster.nodes.get(name):
            found.append(_explained(node, ranking.row(name, cluster.nodes), ranking.rules, need, now))
    return found


def _explained(node: NodeLoad, row: Row, rules: Rules, need: Need, now: float) -> Explanation:
    full_at = rules.profile.full_at
    here = load(row, *need, rules.weighted, full_at)
    inputs = tuple(_input(node, rules, resource, now) for resource in rules.weighted)
    return Explanation(node.node.name, score(here, full_at), None if here == FULL else here, inputs)


def _input(node: NodeLoad, rules: Rules, resource: int, now: float) -> Input:
    capacity, allocatable = node.node.capacity[resource] or FULL, node.node.allocatable[resource] or FULL
    seen, sampled = node.measured[2 * rules.view + resource], node.sampled[resource]
    return Input(
        RESOURCES[resource],
        judged(node, rules, resource),
        None if seen is None else seen / capacity,
        None if sampled is None else now - sampled,
        node.pending(rules.view, resource) / capacity,
        node.climb[resource] * rules.profile.climb_seconds / capacity,
        node.requested[resource] / allocatable,
    )


def to_document(profile: str, need: Need, nodes: Iterable[Explanation]) -> dict[str, Any]:
    """For programs."""
    return {
        "profile": profile,
        "pod": {"use": need.use._asdict(), "request": need.request._asdict()},
        "nodes": [
            {
                "node": one.node,
                "score": one.score,
                "load": one.load,
                "inputs": [{name: getattr(part, name) for name in Input.__slots__} for part in one.inputs],
            }
            for one in nodes
        ],
    }


def to_table(title: str, nodes: Iterable[Explanation]) -> Table:
    """For humans: a line for each resource that counts."""
    return Table(title, COLUMNS, tuple(row for one in nodes for row in _rows(one)))


def _rows(one: Explanation) -> Iterator[tuple[Cell, ...]]:
    for number, part in enumerate(one.inputs):
        first: tuple[Cell, ...] = ("", "", "")
        if number == 0:
            first = (one.node, one.score, _percent(one.load) if one.load is not None else "full")
        age = None if part.age is None else round(part.age)
        shares = [_percent(share) for share in (part.in_flight, part.climb, part.requested)]
        yield (*first, part.resource, part.judged_by, _percent(part.measured), age, *shares)


def _percent(share: float | None) -> Cell:
    return None if share is None else f"{share:.1%}"
