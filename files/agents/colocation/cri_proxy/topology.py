# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The machine as the kernel describes it: sockets hold NUMA nodes, those hold CCXs, those hold cores, those threads.

A *CCX* is the set of CPUs that share a last-level (L3) cache. Where the kernel shows none, or none that lies within a
NUMA node and holds more than one CPU of it, the NUMA node stands for it, and `notes` says so. A *socket* is here what
holds whole NUMA nodes: packages that share one (old virtual machines) count as one socket.

Nothing is known here of containers. Where the files come from is a parameter, so that any machine can be made up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from colocation.cri_proxy import cpus as cpu_sets

CacheChoice = Literal["auto", "l3", "numa"]
LOCAL, REMOTE = 10, 20  # distances where the firmware gives none
LAST_LEVEL = "3"


class NoTopology(Exception):
    """The machine can't be described; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class Ccx:
    """CPUs behind one last-level cache, or a NUMA node that stands for it."""

    index: int  # its place in `Machine.ccxs`
    cpus: int
    cores: tuple[int, ...]  # the threads of each
    numa: int
    socket: int
    cache_kib: int = 0


@dataclass(frozen=True, slots=True)
class Numa:
    """A NUMA node with CPUs."""

    id: int
    cpus: int
    socket: int
    ccxs: tuple[Ccx, ...]


@dataclass(frozen=True, slots=True)
class Socket:
    """One package, or several that share a NUMA node."""

    id: int
    cpus: int
    numas: tuple[Numa, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """All of it; only CPUs that are online."""

    sockets: tuple[Socket, ...]
    online: int
    isolated: int = 0
    distances: Mapping[tuple[int, int], int] = field(default_factory=dict)
    memory_kib: Mapping[int, int] = field(default_factory=dict)  # of each NUMA node, those without CPUs too
    notes: tuple[str, ...] = ()

    @property
    def numas(self) -> tuple[Numa, ...]:
        return tuple(numa for socket in self.sockets for numa in socket.numas)

    @property
    def ccxs(self) -> tuple[Ccx, ...]:
        return tuple(ccx for numa in self.numas for ccx in numa.ccxs)

    def distance(self, one: int, other: int) -> int:
        """Between NUMA nodes, in the firmware's units: 10 is no distance."""
        return self.distances.get((one, other), LOCAL if one == other else REMOTE)


@dataclass(frozen=True, slots=True)
class _Cache:
    cpus: int
    kib: int


def fingerprint(files: Files) -> tuple[str, str]:
    """What changes when CPUs come and go; cheap enough to be read every few seconds."""
    reader = _Reader(files)
    return reader.text("cpu/online"), reader.text("cpu/isolated", "")


def read(files: Files, cache: CacheChoice = "auto") -> Machine:
    """The machine; NoTopology where the kernel's description is missing or makes no sense."""
    reader = _Reader(files)
    online = reader.cpu_list("cpu/online")
    if not online:
        raise NoTopology(f"{reader.place('cpu/online')} names no CPU")
    notes: list[str] = []
    packages = _packages(reader, online)
    nodes = _nodes(reader, online, notes)
    cores = _cores(reader, online)
    caches = [] if cache == "numa" else _caches(reader, online)
    groups = {node: _groups(node, nodes[node], caches, cache, notes) for node in nodes}
    sockets: list[Socket] = []
    index = 0
    for package, members in _sockets(packages, nodes):
        numas = []
        for node in members:
            ccxs = []
            for group in groups[node]:
                own = tuple(core & group.cpus for core in cores if core & group.cpus)
                ccxs.append(Ccx(index, group.cpus, own, node, package, group.kib))
                index += 1
            numas.append(Numa(node, nodes[node], package, tuple(ccxs)))
        sockets.append(Socket(package, cpu_sets.union(numa.cpus for numa in numas), tuple(numas)))
    isolated = reader.cpu_list("cpu/isolated", "") & online
    distances, memory = reader.distances(), reader.memory()
    return Machine(tuple(sockets), online, isolated, distances, memory, tuple(dict.fromkeys(notes)))


class Files(Protocol):
    """The kernel's description: texts by their path under sys/devices/system."""

    base: Path

    def text(self, name: str) -> str:
        """The content of a file; an OSError if there is none."""

    def names(self, folder: str) -> Sequence[str]:
        """What is in a folder; an OSError if there is none."""


class Folder:
    """The description under a root: the kernel's own, or a made-up one."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.base = root / "sys/devices/system"

    def text(self, name: str) -> str:
        return (self.base / name).read_text(encoding="ascii", errors="replace")

    def names(self, folder: str) -> Sequence[str]:
        return os.listdir(self.base / folder)


class _Reader:
    """What the files say."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def place(self, name: str) -> Path:
        return self._files.base / name

    def text(self, name: str, otherwise: str | None = None) -> str:
        try:
            return self._files.text(name).strip()
        except OSError as problem:
            if otherwise is not None:
                return otherwise
            raise NoTopology(f"{self.place(name)} can't be read: {problem.strerror}") from None

    def cpu_list(self, name: str, otherwise: str | None = None) -> int:
        try:
            return cpu_sets.parse(self.text(name, otherwise))
        except cpu_sets.BadCpuList as problem:
            raise NoTopology(f"{self.place(name)}: {problem}") from None

    def number(self, name: str, otherwise: int) -> int:
        text = self.text(name, str(otherwise))
        return int(text) if text.lstrip("-").isdigit() else otherwise

    def folders(self, name: str, stem: str) -> list[tuple[int, str]]:
        """Folders called by a stem and a number, by number."""
        try:
            names = self._files.names(name)
        except OSError:
            return []
        numbered = ((text.removeprefix(stem), text) for text in names if text.startswith(stem))
        return sorted((int(number), text) for number, text in numbered if number.isdigit())

    def distances(self) -> dict[tuple[int, int], int]:
        """The firmware's table; its columns are the nodes that are online, in their order."""
        nodes = [number for number, _name in self.folders("node", "node")]
        table = {}
        for node in nodes:
            row = self.text(f"node/node{node}/distance", "").split()
            if len(row) == len(nodes) and all(text.isdigit() for text in row):
                table.update({(node, other): int(text) for other, text in zip(nodes, row, strict=True)})
        return table

    def memory(self) -> dict[int, int]:
        """KiB of memory of each node that has any."""
        found = {}
        for node, name in self.folders("node", "node"):
            for line in self.text(f"node/{name}/meminfo", "").splitlines():
                words = line.split()
                if len(words) >= 4 and words[2] == "MemTotal:" and words[3].isdigit() and int(words[3]):
                    found[node] = int(words[3])
        return found


def _packages(reader: _Reader, online: int) -> dict[int, int]:
    """CPUs by package; a kernel that knows none says -1."""
    packages: dict[int, int] = {}
    for cpu in cpu_sets.members(online):
        package = max(0, reader.number(f"cpu/cpu{cpu}/topology/physical_package_id", 0))
        packages[package] = packages.get(package, 0) | 1 << cpu
    return packages


def _nodes(reader: _Reader, online: int, notes: list[str]) -> dict[int, int]:
    """CPUs by NUMA node, without nodes that have none online."""
    nodes = {}
    known = 0
    for number, name in reader.folders("node", "node"):
        cpus = reader.cpu_list(f"node/{name}/cpulist", "") & online & ~known
        if cpus:
            nodes[number] = cpus
            known |= cpus
    if not nodes:
        notes.append("The kernel shows no NUMA nodes; the whole machine counts as one.")
        return {0: online}
    if online & ~known:
        lost = online & ~known
        notes.append(f"CPUs {cpu_sets.show(lost)} belong to no NUMA node; they count to node {min(nodes)}.")
        nodes[min(nodes)] |= lost
    return nodes


def _cores(reader: _Reader, online: int) -> list[int]:
    """The threads of each core."""
    cores = []
    known = 0
    for cpu in cpu_sets.members(online):
        if known >> cpu & 1:
            continue
        old = reader.text(f"cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
        text = reader.text(f"cpu/cpu{cpu}/topology/core_cpus_list", old)
        threads = (_cpu_list_or(text, 1 << cpu) & online & ~known) | 1 << cpu
        cores.append(threads)
        known |= threads
    return cores


def _caches(reader: _Reader, online: int) -> list[_Cache]:
    """The last-level caches; their number among a CPU's caches is not the same everywhere, so the level decides.

    Where the CPUs of one list have different ids, the ids are believed: emulators say in the list that a whole socket
    shares what the ids tell apart. Real machines agree with themselves.
    """
    found = []
    known = 0
    for cpu in cpu_sets.members(online):
        place = None if known >> cpu & 1 else _last_level(reader, cpu)
        if place is None:
            continue
        shared = (_cpu_list_or(reader.text(f"{place}/shared_cpu_list", ""), 0) & online & ~known) | 1 << cpu
        kib = _kib(reader.text(f"{place}/size", ""))
        found += [_Cache(part, kib) for part in _by_id(reader, shared)]
        known |= shared
    return found


def _last_level(reader: _Reader, cpu: int) -> str | None:
    base = f"cpu/cpu{cpu}/cache"
    folders = (f"{base}/{name}" for _number, name in reader.folders(base, "index"))
    return next((folder for folder in folders if reader.text(f"{folder}/level", "") == LAST_LEVEL), None)


def _by_id(reader: _Reader, shared: int) -> list[int]:
    """The CPUs of a list by the id of their cache, if each id has several; else the list as it is."""
    parts: dict[str, int] = {}
    for cpu in cpu_sets.members(shared):
        place = _last_level(reader, cpu)
        name = reader.text(f"{place}/id", "") if place is not None else ""
        parts[name] = parts.get(name, 0) | 1 << cpu
    if "" in parts or any(part.bit_count() < 2 for part in parts.values()):
        return [shared]
    return list(parts.values())


def _groups(node: int, cpus: int, caches: list[_Cache], choice: CacheChoice, notes: list[str]) -> list[_Cache]:
    """What the CCXs of a NUMA node are."""
    within = [cache for cache in caches if not cache.cpus & ~cpus]
    stands = [_Cache(cpus, 0)]
    if choice == "numa":
        return stands
    if cpu_sets.union(cache.cpus for cache in within) != cpus:
        crossing = any(cache.cpus & cpus for cache in caches)
        why = "reaches over several NUMA nodes" if crossing else "is not shown"
        notes.append(f"The L3 cache of NUMA node {node} {why}; the node stands for the CCX.")
        return stands
    if choice == "auto" and len(within) > 1 and all(cache.cpus.bit_count() == 1 for cache in within):
        notes.append(
            f"Each CPU of NUMA node {node} shows an L3 cache of its own, as in virtual machines without the topoext "
            f"feature; the node stands for the CCX."
        )
        return stands
    return sorted(within, key=lambda cache: cache.cpus & -cache.cpus)


def _sockets(packages: dict[int, int], nodes: dict[int, int]) -> list[tuple[int, list[int]]]:
    """NUMA nodes by socket, each named by its lowest package."""
    groups: list[tuple[int, int]] = sorted(packages.items())  # package, CPUs
    for cpus in nodes.values():
        touched = [group for group in groups if group[1] & cpus]
        merged = (min(package for package, _cpus in touched), cpu_sets.union(cpus for _package, cpus in touched))
        groups = sorted([group for group in groups if not group[1] & cpus] + [merged])
    return [(package, [node for node in sorted(nodes) if nodes[node] & cpus]) for package, cpus in groups]


def _cpu_list_or(text: str, otherwise: int) -> int:
    try:
        return cpu_sets.parse(text)
    except cpu_sets.BadCpuList:
        return otherwise


def _kib(text: str) -> int:
    shift = {"K": 0, "M": 10, "G": 20}.get(text[-1:])
    return int(text[:-1]) << shift if shift is not None and text[:-1].isdigit() else 0
