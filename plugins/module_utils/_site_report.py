# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What site.yml tells at its end: a table of what stands on each node, its CPU caches, and what is wrong with remedies.

It is made of what node_health and node_capacity_info said, never of what a run was to do: so it is as true in check
mode, where it shows what stands and not what would. Lines carry no quotes or backslashes, because Ansible prints them
as JSON.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import CRITICAL, Finding
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import (
    finding_of,
    node_lines,
    plain,
    reason,
    summary,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_report import WIDTH, count, host_list

HEADS = ("node", "health", "release", "agents", "on offer", "taken")
CACHES_AGENT = "cri-resource-manager.service"
MACHINE, CONTAINERS, NAME, CPUS, PLACE = "machine", "Containers", "container", "CPUs", "place"
MOST_NAMES = 6  # containers of one place that are named
NEVER = "never"


@dataclass(frozen=True, slots=True)
class Offer:
    """An extended resource of a node."""

    name: str
    offered: str  # what pods may have
    taken: str  # what they hold


@dataclass(frozen=True, slots=True)
class Caches:
    """Where containers run on a node with the CRI proxy."""

    machine: str
    places: tuple[tuple[str, str, tuple[str, ...]], ...]  # CPUs, what they are (ccx, numa …), containers


@dataclass(frozen=True, slots=True)
class Node:
    """A node that was looked at."""

    findings: tuple[Finding, ...]
    releases: tuple[str, ...]
    agents: dict[str, str]  # unit without its ending: state
    offers: tuple[Offer, ...] = ()
    caches: Caches | None = None
    unread: str = ""  # why its offers are not known


@dataclass(frozen=True, slots=True)
class Site:
    """All nodes of a run."""

    nodes: dict[str, Node] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)  # host: why it was not looked at
    left_out: tuple[str, ...] = ()  # hosts of the inventory that --limit took out
    check_mode: bool = False


def read_site(
    healths: Mapping[str, Mapping[str, Any] | None],
    capacities: Mapping[str, Mapping[str, Any] | None],
    unreachable: Iterable[str],
    all_nodes: Iterable[str],
    check_mode: bool,
) -> Site:
    """The site in what the modules said of each host; ValueError for findings that are none."""
    nodes: dict[str, Node] = {}
    lost = dict.fromkeys(unreachable, "unreachable: preflight found it so, and it was left out")
    for host, health in healths.items():
        if health and "findings" in health:
            nodes[host] = _node(health, capacities.get(host) or {})
        else:
            lost[host] = reason(health)
    left_out = tuple(host for host in all_nodes if host not in nodes and host not in lost)
    return Site(nodes, lost, left_out, check_mode)


def _node(health: Mapping[str, Any], capacity: Mapping[str, Any]) -> Node:
    agents = [agent for agent in health.get("agents") or () if agent.get("unit")]
    by_unit = {str(agent["unit"]): agent for agent in agents}
    read = "nodes" in capacity or capacity.get("skipped", not capacity)
    resources = [one for node in capacity.get("nodes") or () for one in node.get("resources") or ()]
    return Node(
        tuple(finding_of(value) for value in health["findings"]),
        tuple(dict.fromkeys(str(agent["release"]) for agent in agents if agent.get("release"))),
        {unit.removesuffix(".service"): str(agent.get("state", "")) for unit, agent in by_unit.items()},
        tuple(map(_offer, resources)),
        _caches(by_unit.get(CACHES_AGENT, {}).get("page")),
        "" if read else " ".join(str(capacity.get("msg", "no answer")).split()),
    )


def _offer(value: Mapping[str, Any]) -> Offer:
    return Offer(str(value["name"]), str(value.get("allocatable") or "0"), str(value.get("requested") or "0"))


def _caches(page: Mapping[str, Any] | None) -> Caches | None:
    """The map in the proxy's status; None where it says none, as one that only passes calls on."""
    if not page or MACHINE not in page.get("facts", {}):
        return None
    places: dict[tuple[str, str], list[str]] = {}
    for table in page.get("tables") or ():
        columns = list(table["columns"])
        if table["title"] == CONTAINERS and {NAME, CPUS, PLACE} <= set(columns):
            for row in table["rows"]:
                cells = dict(zip(columns, map(str, row), strict=True))
                places.setdefault((cells[CPUS], cells[PLACE]), []).append(cells[NAME])
    found = sorted((_first_cpu(cpus), cpus, kind, tuple(names)) for (cpus, kind), names in places.items())
    return Caches(str(page["facts"][MACHINE]), tuple((cpus, kind, names) for _first, cpus, kind, names in found))


def _first_cpu(cpus: str) -> int:
    digits = cpus.replace(",", "-").partition("-")[0]
    return int(digits) if digits.isdigit() else -1


def site_lines(site: Site) -> list[str]:
    """The whole report."""
    lines = [_title(site)]
    if site.check_mode:
        lines.append("check mode: nothing was changed, and this is how it stands now")
    if site.left_out:
        lines += _wrapped(f"left out of this run: {host_list(site.left_out)}", "", "  ")
    if site.nodes:
        lines += ["", *_table([HEADS, *(row for host, node in site.nodes.items() for row in _rows(host, node))])]
    for host, node in site.nodes.items():
        if node.caches is not None:
            lines += ["", *_cache_lines(host, node.caches)]
    for host, node in site.nodes.items():
        if node.findings or node.unread:
            lines += ["", f"{host}: {summary(node.findings)}", *node_lines(node.findings)]
            lines += _wrapped(f"what it offers could not be read: {node.unread}", "  ", "    ") if node.unread else []
    if site.lost:
        lines += ["", *(line for host, why in site.lost.items() for line in _wrapped(f"{host}: {why}", "", "  "))]
    return [plain(line) for line in lines]


def failed(site: Site, severities: Sequence[str]) -> list[str]:
    """Hosts with a finding of one of these severities, and those that fell out; in check mode only what fell out.

    In check mode nothing was mended, so what this run would mend is no failure of it.
    """
    ill = [
        host
        for host, node in site.nodes.items()
        if not site.check_mode and any(finding.severity in severities for finding in node.findings)
    ]
    return [*ill, *site.lost]


def _title(site: Site) -> str:
    well = sum(summary(node.findings) == "healthy" for node in site.nodes.values())
    critical = sum(any(f.severity == CRITICAL for f in node.findings) for node in site.nodes.values())
    others = len(site.nodes) - well - critical
    counts = [f"{well} healthy"]
    counts += [f"{others} with warnings or notices"] if others else []
    counts += [f"{critical} critical"] if critical else []
    counts += [f"{len(site.lost)} not looked at"] if site.lost else []
    return f"colocation on {count(len(site.nodes) + len(site.lost), 'node')}: {', '.join(counts)}"


def _rows(host: str, node: Node) -> list[tuple[str, ...]]:
    """A row for each resource, and one where there is none; the node's own cells stand in the first."""
    release = ", ".join(node.releases) or "-"
    agents = [name if state == "active" else f"{name} ({state})" for name, state in node.agents.items()] or ["-"]
    offers = [(offer.name, f"{offer.taken} of {offer.offered}") for offer in node.offers]
    offers = offers or [("not read" if node.unread else "-", "")]
    height = max(len(agents), len(offers))
    first = [(host, _health(node), release), *[("", "", "")] * (height - 1)]
    agents += [""] * (height - len(agents))
    offers += [("", "")] * (height - len(offers))
    return [(*own, agent, *offer) for own, agent, offer in zip(first, agents, offers, strict=True)]


def _health(node: Node) -> str:
    worst = next(iter(node.findings), None)  # node_health tells the worst first
    return worst.severity if worst else "healthy"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cache_lines(host: str, caches: Caches) -> list[str]:
    lines = _wrapped(f"CPU caches of {host}: {caches.machine}", "", "  ")
    if not caches.places:
        return [*lines, "  no container has a place yet"]
    width = max(len(cpus) for cpus, _kind, _names in caches.places)
    kinds = max(len(kind) for _cpus, kind, _names in caches.places)
    for cpus, kind, names in caches.places:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        start = f"  {cpus.ljust(width)}  {kind.ljust(kinds)}  "
        lines += _wrapped(", ".join(names[:MOST_NAMES]) + more, start, " " * len(start))
    return lines


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
