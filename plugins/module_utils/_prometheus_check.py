# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether a Prometheus answers what the scheduler's extender asks, for every node, and if not, what is missing there.

A value for a node is missing for one of few reasons, each with another remedy: nobody records the rule; nobody scrapes
the node exporters, or this one; the series do not say of which node they are. What was found decides which is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.colocation.kubernetes.plugins.module_utils._prometheus import PrometheusError, Series

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*$")  # a metric's name, rather than an expression
INPUTS = {"cpu": "node_cpu_seconds_total", "memory": "node_memory_MemAvailable_bytes"}
# What discovery calls the node of a target, by the kind of discovery.
DISCOVERED = (
    "__meta_kubernetes_pod_node_name",
    "__meta_kubernetes_endpoint_node_name",
    "__meta_kubernetes_endpointslice_endpoint_topology_kubernetes_io_hostname",
    "__meta_kubernetes_node_name",
)
MOST_PERCENT = 100.0 * 1.5  # more is no percentage, whatever clocks do
SHOWN = 5


class Answers(Protocol):
    """What is asked of a Prometheus."""

    def query(self, expression: str) -> list[Series]: ...

    def recorded(self) -> dict[str, str]: ...

    def targets(self) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What has to be answered: queries by what they tell, the label that names a node, and the nodes with addresses."""

    queries: Mapping[str, str]
    label: str
    unit: str
    nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is missing: what, for which nodes, what to do, and the lines that do it."""

    what: str
    nodes: tuple[str, ...]
    remedy: str
    snippet: str = ""
    needs: str = ""  # "rules": the collection's rule file would do


def check(prometheus: Answers, wanted: Wanted) -> list[Finding]:
    """All that is missing; nothing where every query has a good value for every node."""
    found = []
    for told in sorted(wanted.queries):
        finding = _check_one(prometheus, wanted, told, wanted.queries[told])
        if finding is not None:
            found.append(finding)
    return found


def _check_one(prometheus: Answers, wanted: Wanted, told: str, query: str) -> Finding | None:
    series = prometheus.query(query)
    every = tuple(wanted.nodes)
    if not series:
        return _nothing(prometheus, wanted, told, query)
    named = [one for one in series if one.labels.get(wanted.label)]
    if not named:
        return _unlabelled(prometheus, wanted, f"{query} has no label {wanted.label}", series)
    lost = tuple(node for node in every if all(one.labels[wanted.label] != node for one in named))
    if lost:
        return _lost(prometheus, wanted, query, named, lost)
    here = [one for one in named if one.labels[wanted.label] in wanted.nodes]
    twice = _twice(wanted, here)
    if twice:
        return Finding(
            f"{query} has several series for a node",
            twice,
            f"aggregate it, for example max by ({wanted.label}) ({query})",
        )
    return _no_values(wanted, query, here)


def _nothing(prometheus: Answers, wanted: Wanted, told: str, query: str) -> Finding:
    """No series at all: is it the exporters, the label, or the rule?"""
    every = tuple(wanted.nodes)
    inputs = prometheus.query(f"count by (instance, {wanted.label}) ({INPUTS[told]})")
    if not inputs:
        return Finding(
            f"{query} has no series, and neither has {INPUTS[told]}",
            every,
            "scrape a node exporter on every node (monitoring_mode: install brings them)",
        )
    if not any(one.labels.get(wanted.label) for one in inputs):
        return _unlabelled(prometheus, wanted, f"{INPUTS[told]} has no label {wanted.label}", inputs)
    if not NAME.match(query):
        return Finding(f"{query} has no series", every, "mend the query; its input is there")
    recorded = prometheus.recorded()
    if query not in recorded:
        return Finding(f"no rule records {query}", every, "add the collection's rules to Prometheus", needs="rules")
    why = recorded[query] or "it was not evaluated yet, or what it reads has no series"
    return Finding(f"a rule records {query}, and it has no series", every, f"look at that rule: {why}")


def _unlabelled(prometheus: Answers, wanted: Wanted, what: str, series: Sequence[Series]) -> Finding:
    """Series that don't say of which node they are; the remedy depends on how their targets were found."""
    instances = {one.labels.get("instance", "") for one in series} - {""}
    targets = [one for one in _targets(prometheus) if not instances or one["labels"].get("instance") in instances]
    sources = [name for name in DISCOVERED if any(name in one.get("discoveredLabels", {}) for one in targets)]
    if sources:
        lines = ["relabel_configs:", f"- source_labels: [{sources[0]}]", f"  target_label: {wanted.label}"]
        return Finding(what, tuple(wanted.nodes), "add this to the scrape job of the node exporters", _text(lines))
    lines = ["static_configs:"]
    for node, address in wanted.nodes.items():
        port = next((found.rpartition(":")[2] for found in instances if _host(found) in (node, address)), "9100")
        lines += [f"- targets: ['{address or node}:{port}']", f"  labels: {{{wanted.label}: {node}}}"]
    return Finding(what, tuple(wanted.nodes), "name the node of each target in the scrape job", _text(lines))


def _lost(prometheus: Answers, wanted: Wanted, query: str, named: Iterable[Series], lost: tuple[str, ...]) -> Finding:
    strange = sorted({one.labels[wanted.label] for one in named} - set(wanted.nodes))
    ill = []
    for target in _targets(prometheus):
        known = {target["labels"].get(wanted.label, ""), _host(target["labels"].get("instance", ""))}
        if target.get("health") == "down":
            node = next((node for node in lost if node in known or wanted.nodes[node] in known - {""}), None)
            if node:
                ill.append(f"{node}: {target.get('scrapeUrl')} is down: {target.get('lastError')}")
    remedy = "; ".join(ill[:SHOWN]) or "see that Prometheus scrapes the node exporters there"
    if strange and not ill:
        remedy = f"{wanted.label} should be the Node's name in the API; Prometheus knows {', '.join(strange[:SHOWN])}"
    return Finding(f"{query} has no value for these nodes", lost, remedy)


def _no_values(wanted: Wanted, query: str, series: Sequence[Series]) -> Finding | None:
    """Values that can't be what they should be."""
    absurd = {one.labels[wanted.label]: one.value for one in series if not math.isfinite(one.value) or one.value < 0}
    if absurd:
        shown = ", ".join(f"{node}: {value}" for node, value in sorted(absurd.items())[:SHOWN])
        return Finding(f"{query} has values that are none", tuple(sorted(absurd)), f"mend the query or rule ({shown})")
    most = {"percent": MOST_PERCENT, "ratio": MOST_PERCENT / 100}.get(wanted.unit, math.inf)
    over = tuple(sorted(one.labels[wanted.label] for one in series if one.value > most))
    if over:
        return Finding(f"{query} has values that are no {wanted.unit}", over, "set monitoring_unit to what it is")
    if wanted.unit == "percent" and all(one.value <= 1 for one in series) and any(one.value > 0.2 for one in series):
        every = tuple(wanted.nodes)
        return Finding(f"{query} is 1 at the most on every node", every, "set monitoring_unit to ratio, if it is one")
    return None


def _twice(wanted: Wanted, series: Iterable[Series]) -> tuple[str, ...]:
    seen: set[str] = set()
    twice: set[str] = set()
    for one in series:
        node = one.labels[wanted.label]
        (twice if node in seen else seen).add(node)
    return tuple(sorted(twice))


def _targets(prometheus: Answers) -> list[dict[str, Any]]:
    """What is scraped; nothing where that is not told (Thanos and others answer queries only)."""
    try:
        return prometheus.targets()
    except PrometheusError:
        return []


def _host(instance: str) -> str:
    return instance.rpartition(":")[0].strip("[]") if re.search(r":\d+$", instance) else instance


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
