# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kernel's figures on memory, from /proc and sysfs: text in, values out, and the few lines that read the files.

sysfs has no MemAvailable for a NUMA node, so it is made as the kernel makes the one of the machine: free pages without
what the zones keep for themselves, and the page cache and reclaimable slab but for a part that stays in use.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from colocation.device_plugin.accounting import Reading

PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 1 << 16
_MEMINFO = re.compile(rb"^(?:Node \d+ )?([\w()]+): +(\d+)(?: (kB))?$", re.MULTILINE)
_ZONE = re.compile(r"^Node (\d+), zone +\S+$", re.MULTILINE)
_PRESSURE = re.compile(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$", re.MULTILINE)


class Unreadable(Exception):
    """A file of the kernel's is not there, can't be read, or says what we don't understand; says which and why."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the kernel shows itself."""

    proc: str = "/proc"
    nodes: str = "/sys/devices/system/node"
    cgroup: str = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Kept:
    """Pages of a NUMA node that are not for use: below these the kernel reclaims, or refuses."""

    reserved: int = 0
    low: int = 0


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node with memory."""

    number: int
    reading: Reading
    has_cpu: bool


@dataclass(frozen=True, slots=True)
class Pressure:
    """Share of the last ten seconds in which some, or all, waited for memory; in percent."""

    some: float
    full: float


def meminfo(content: bytes) -> dict[str, int]:
    """The lines of /proc/meminfo, or of a node's meminfo, in bytes."""
    return {name.decode(): int(count) << (10 if unit else 0) for name, count, unit in _MEMINFO.findall(content)}


def machine(content: bytes) -> Reading:
    """The whole machine, from /proc/meminfo."""
    found = meminfo(content)
    try:
        return Reading(found["MemTotal"], found["MemAvailable"])
    except KeyError as missing:
        raise Unreadable(f"meminfo has no {missing.args[0]}") from None


def node_reading(content: bytes, kept: Kept) -> Reading:
    """One NUMA node, from its meminfo, by the kernel's own rule for MemAvailable."""
    found = meminfo(content)
    try:
        total, free = found["MemTotal"], found["MemFree"]
        files = found["Active(file)"] + found["Inactive(file)"]
        slab = found.get("KReclaimable", found.get("SReclaimable", 0))
    except KeyError as missing:
        raise Unreadable(f"a node's meminfo has no {missing.args[0]}") from None
    cache = sum(part - min(part // 2, kept.low) for part in (files, slab))
    return Reading(total, min(total, max(0, free - kept.reserved + cache)))


def kept_pages(zoneinfo: str) -> dict[int, Kept]:
    """What the zones of each NUMA node keep, from /proc/zoneinfo."""
    parts = _ZONE.split(zoneinfo)
    found: dict[int, Kept] = {}
    for number, body in zip(map(int, parts[1::2]), parts[2::2], strict=True):
        low, high, managed = (_zone_number(name, body) for name in ("low", "high", "managed"))
        protection = re.search(r"^ +protection: \(([\d, ]+)\)$", body, re.MULTILINE)
        largest = max(map(int, protection[1].split(","))) if protection else 0
        reserved = min(managed, largest + high) * PAGE
        before = found.get(number, Kept())
        found[number] = Kept(before.reserved + reserved, before.low + low * PAGE)
    return found


def _zone_number(name: str, body: str) -> int:
    found = re.search(rf"^ +{name} +(\d+)$", body, re.MULTILINE)
    return int(found[1]) if found else 0


def pressure(text: str) -> Pressure:
    """A memory.pressure file."""
    averages = {kind: float(ten) for kind, ten, *_longer in _PRESSURE.findall(text)}
    if "some" not in averages:
        raise Unreadable("this is no pressure file")
    return Pressure(averages["some"], averages.get("full", 0.0))


def id_list(text: str) -> tuple[int, ...]:
    """The kernel's lists of numbers, such as 0-1,3."""
    found: list[int] = []
    try:
        for part in filter(None, text.strip().split(",")):
            first, _dash, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        raise Unreadable(f"{text.strip()!r} is no list of numbers") from None
    return tuple(found)


def stat(content: bytes) -> dict[str, int]:
    """A control group's memory.stat."""
    words = content.decode("ascii", "replace").split()
    try:
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))
    except ValueError:
        raise Unreadable("memory.stat is no list of names and numbers") from None


def numa_stat(content: bytes) -> dict[int, dict[str, int]]:
    """A control group's memory.numa_stat, by NUMA node, with the names of memory.stat."""
    nodes: dict[int, dict[str, int]] = {}
    for line in content.decode("ascii", "replace").splitlines():
        name, _blank, pairs = line.partition(" ")
        for pair in pairs.split():
            node, _equals, count = pair.partition("=")
            if node[:1] == "N" and node[1:].isdigit() and count.isdigit():
                nodes.setdefault(int(node[1:]), {})[name] = int(count)
    return nodes


def read(path: str) -> bytes:
    """A file of the kernel's, whole; Unreadable where that fails."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(file, _CHUNK)
            while len(content) % _CHUNK == 0 and (more := os.read(file, _CHUNK)):
                content += more
            return content
        finally:
            os.close(file)
    except OSError as problem:
        raise Unreadable(f"{path}: {problem.strerror or problem}") from None


def read_machine(roots: Roots) -> Reading:
    """The whole machine."""
    return machine(read(f"{roots.proc}/meminfo"))


def read_nodes(roots: Roots) -> tuple[NumaNode, ...]:
    """All NUMA nodes that have memory, those without processors too."""
    kept = kept_pages(_text(f"{roots.proc}/zoneinfo"))
    with_cpu = id_list(_text(f"{roots.nodes}/has_cpu"))
    found = []
    for number in id_list(_text(f"{roots.nodes}/has_memory")):
        reading = node_reading(read(f"{roots.nodes}/node{number}/meminfo"), kept.get(number, Kept()))
        found.append(NumaNode(number, reading, number in with_cpu))
    return tuple(found)


def read_pressure(path: str) -> Pressure | None:
    """A pressure file; None where the kernel has none (PSI is off) or it is gone."""
    try:
        return pressure(_text(path))
    except Unreadable:
        return None


def _text(path: str) -> str:
    return read(path).decode("ascii", "replace")
