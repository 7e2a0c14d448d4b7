# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From what a node or the API says to values of the timeline. What is missing or no number is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .timeline import Key

GIB = float(1 << 30)
MEMORY = "test.com/colocation-memory"
ROLE = "story"  # the label by which the story knows its pods
_METRIC = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PLACED = {"batch": ("batch", "batch"), "online": ("batch", "online"), "use": ("placement", "use"),
           "requests": ("placement", "requests")}  # fmt: skip

Values = dict[Key, float]
Document = Mapping[str, Any]


def metrics(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each line of Prometheus' text that is one."""
    found = []
    for line in text.splitlines():
        match = _METRIC.fullmatch(line.strip()) if not line.startswith("#") else None
        if match is not None:
            try:
                found.append((match["name"], dict(_LABEL.findall(match["labels"] or "")), float(match["value"])))
            except ValueError:
                continue
    return found


def of_agent(node: str, text: str) -> Values:
    """Online use, as the device plugin counts it: of the whole node, or the sum of its zones."""
    zones = {
        labels.get("zone", "all"): value
        for name, labels, value in metrics(text)
        if name == "colocation_memory_online_bytes"
    }
    if not zones:
        return {}
    whole = zones["all"] if "all" in zones else sum(zones.values())
    return {Key("memory", node, "online"): whole / GIB}


def of_files(node: str, meminfo: str, pressure: str) -> Values:
    """What the kernel says itself, whether the agents run or not."""
    values: Values = {}
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    if available:
        values[Key("memory", node, "available")] = int(available[1]) * 1024 / GIB
    some = re.search(r"^some avg10=([\d.]+) ", pressure, re.MULTILINE)
    if some:
        values[Key("pressure", node, "some")] = float(some[1])
    return values


def available_mib(meminfo: str) -> int:
    """What the kernel has available."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def total_mib(meminfo: str) -> int:
    """All that the kernel has."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def of_nodes(document: Document) -> Values:
    """What each Node offers, and whether it is Ready."""
    values: Values = {}
    for node in document.get("items", ()):
        name, status = str(node["metadata"]["name"]), node.get("status", {})
        values[Key("ready", name, "ready")] = float(is_ready(node))
        offered = status.get("allocatable", {}).get(MEMORY)
        if offered is not None:
            values[Key("blocks", name, "offered")] = float(offered)
    return values


def is_ready(node: Document) -> bool:
    """Whether a Node says so."""
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def of_pods(document: Document, nodes: list[str]) -> Values:
    """How many pods of each role run on each node, and the blocks that pods hold there."""
    placed: Counter[Key] = Counter({Key(*where[:1], node, where[1]): 0 for where in _PLACED.values() for node in nodes})
    held: Counter[str] = Counter(dict.fromkeys(nodes, 0))
    for pod in document.get("items", ()):
        node = pod.get("spec", {}).get("nodeName")
        if node not in nodes or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        held[node] += blocks(pod)
        role = (pod["metadata"].get("labels") or {}).get(ROLE)
        if role in _PLACED and runs(pod):
            chart, kind = _PLACED[role]
            placed[Key(chart, node, kind)] += 1
    values = {key: float(count) for key, count in placed.items()}
    return values | {Key("blocks", node, "held"): float(count) for node, count in held.items()}


def blocks(pod: Document) -> int:
    """The blocks that a pod asks for."""
    containers = pod.get("spec", {}).get("containers") or ()
    return sum(int((one.get("resources") or {}).get("limits", {}).get(MEMORY, 0)) for one in containers)


def runs(pod: Document) -> bool:
    """Whether a pod runs and was not told to go."""
    status, metadata = pod.get("status", {}), pod.get("metadata", {})
    return status.get("phase") == "Running" and "deletionTimestamp" not in metadata


def is_well(pod: Document) -> bool:
    """Whether a pod is Ready and was not told to go."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return runs(pod) and any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def of_extender(status: Document, profile: str) -> Values:
    """The scores on the extender's page for nodes that are placed by this profile."""
    for table in status.get("tables", ()):
        if str(table.get("title", "")).startswith(f"{profile}:") and table.get("columns", [])[:2] == ["node", "score"]:
            return {Key("scores", str(row[0]), "memory"): float(row[1]) for row in table["rows"] if row[0]}
    return {}


def zones(status: Document) -> list[str]:
    """What the device plugin's page says of each zone of the memory, in a line."""
    lines = []
    for table in status.get("tables", ()):
        if str(table.get("title", "")).startswith("Memory, "):
            size = str(table["title"]).removeprefix("Memory, ")
            for row in table["rows"]:
                at = dict(zip(table["columns"], row, strict=True))
                lines.append(
                    f"NUMA {at['zone']}: {at['total']}, {at['available']} available, {at['offered']} {size} offered"
                )
    return lines
