# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which plots the page has, and which lines are in each: a line for each node and kind that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .plot import Line, Plot
from .timeline import Key, Series


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot. `kinds` has the words for each kind, in the order of their dashes."""

    key: str
    title: str
    unit: str
    about: str
    kinds: Mapping[str, str]
    stepped: bool = True
    guides: Mapping[str, float] = field(default_factory=dict)


CHARTS = (
    Chart(
        "blocks",
        "Memory on offer",
        "blocks",
        "What a node offers to batch pods (allocatable, as the scheduler sees it), and what pods hold of it.",
        {"offered": "offered", "held": "held"},
    ),
    Chart(
        "memory",
        "Memory of the nodes",
        "GiB",
        "What the kernel has available, and what all but holders of blocks use: online work, as the agent counts it.",
        {"available": "available", "online": "used by online work"},
        stepped=False,
    ),
    Chart(
        "pressure",
        "Memory pressure",
        "%",
        "The part of the last ten seconds in which some task stood still for want of memory (PSI, some, avg10).",
        {"some": "tasks stall"},
        stepped=False,
    ),
    Chart(
        "batch",
        "Batch pods, and the online service",
        "pods",
        "Running pods by node. When online work grows, batch pods leave its node and go on elsewhere.",
        {"batch": "batch", "online": "online"},
    ),
    Chart(
        "placement",
        "Where new pods were placed",
        "pods",
        "The same pods, placed twice: by the real use of nodes, and by what pods asked for, as Kubernetes does it.",
        {"use": "by real use", "requests": "by requests"},
    ),
    Chart(
        "scores",
        "Scores of the scheduler's extender",
        "score",
        "How good a place each node is for a pod that is placed by real memory use; 0 is a node that takes no more.",
        {"memory": "score"},
    ),
    Chart(
        "ready",
        "Nodes that are Ready",
        "1 = Ready",
        "As the API tells it.",
        {"ready": "Ready"},
    ),
)


def plot_of(chart: Chart, series: Series, nodes: Sequence[str]) -> Plot:
    """The plot of a chart: colours go by node, dashes by kind."""
    dashes = {kind: number for number, kind in enumerate(chart.kinds)}
    lines = [
        Line(_name(node, words, len(chart.kinds)), series[key], nodes.index(node), dashes[kind])
        for node in nodes
        for kind, words in chart.kinds.items()
        if (key := Key(chart.key, node, kind)) in series
    ]
    return Plot(chart.key, chart.title, chart.unit, lines, chart.guides, chart.stepped)


def nodes_in(series: Series) -> list[str]:
    """All nodes of which something was measured, by name."""
    return sorted({key.node for key in series})


def _name(node: str, words: str, kinds: int) -> str:
    return node if kinds == 1 else f"{node}, {words}"
