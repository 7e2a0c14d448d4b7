# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Made-up machines: folders with the files that the kernel shows of CPUs, caches and NUMA nodes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colocation.cri_proxy import topology
from colocation.cri_proxy.cpus import members, of, parse, show
from colocation.cri_proxy.topology import CacheChoice, Machine


@dataclass(frozen=True)
class Made:
    """A machine by its counts. Threads of a core are numbered a whole machine apart, as firmware usually does, or side
    by side, as QEMU does."""

    sockets: int = 1
    numas: int = 1  # in a socket
    ccxs: int = 1  # in a NUMA node
    cores: int = 4  # in a CCX
    threads: int = 1
    side_by_side: bool = False
    l3: str = "ccx"  # what shares one: ccx, socket (over its NUMA nodes), cpu, none
    ids: str = "l3"  # what has an id of its own: the l3, the ccx, none
    offline: str = ""
    isolated: str = ""
    near: int = 12  # distance within a socket
    far: int = 32
    memory_nodes: int = 0  # more nodes, with memory only
    numa_files: bool = True
    packages_by_cpu: bool = False  # each CPU is a package of its own
    memory_gib: int = 64  # of a node

    @property
    def all_cores(self) -> int:
        return self.sockets * self.numas * self.ccxs * self.cores

    @property
    def cpus(self) -> int:
        return self.all_cores * self.threads

    def threads_of(self, core: int) -> list[int]:
        if self.side_by_side:
            return [core * self.threads + thread for thread in range(self.threads)]
        return [core + thread * self.all_cores for thread in range(self.threads)]

    def group(self, number: int, cores: int) -> int:
        """The CPUs of the group of so many cores that has this number."""
        return of(cpu for core in range(number * cores, (number + 1) * cores) for cpu in self.threads_of(core))


MACHINES = {
    # Two dies a socket, each a NUMA node with two CCXs of four cores.
    "hygon-c86": Made(sockets=2, numas=2, ccxs=2, cores=4, threads=2, near=16),
    # Four dies a socket.
    "hygon-7185": Made(sockets=2, numas=4, ccxs=2, cores=4, threads=2, near=16),
    "rome-nps1": Made(sockets=2, numas=1, ccxs=16, cores=4, threads=2),
    "rome-nps4": Made(sockets=2, numas=4, ccxs=4, cores=4, threads=2),
    "milan": Made(sockets=2, numas=1, ccxs=8, cores=8, threads=2),
    "genoa": Made(sockets=2, numas=4, ccxs=3, cores=8, threads=2),
    "vm-without-l3": Made(sockets=1, numas=2, ccxs=1, cores=8, l3="none", side_by_side=True),
    "intel": Made(sockets=2, numas=1, ccxs=1, cores=28, threads=2, far=21),
    "intel-snc2": Made(sockets=2, numas=2, ccxs=1, cores=14, threads=2, l3="socket", far=21),
    "one-cpu": Made(cores=1),
    # QEMU without KVM: the list spans the socket, the ids tell four caches.
    "dhyana-emulated": Made(sockets=2, numas=1, ccxs=2, cores=2, l3="socket", ids="ccx", side_by_side=True, far=20),
    # The figure's machine: two sockets of eight CCXs of sixteen CPUs.
    "big": Made(sockets=2, numas=4, ccxs=2, cores=8, threads=2),
}


class MadeFiles:
    """The files of a made-up machine, in memory."""

    base = Path("made-up")

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self._folders: dict[str, set[str]] = {}
        for name in texts:
            parts = name.split("/")
            for depth in range(1, len(parts)):
                self._folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])

    def text(self, name: str) -> str:
        try:
            return self.texts[name]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    def names(self, folder: str) -> Sequence[str]:
        try:
            return sorted(self._folders[folder])
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None


def write(made: Made, root: Path) -> Path:
    """Write a machine under a root, which is returned."""
    for name, text in files(made).texts.items():
        path = root / "sys/devices/system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def files(made: Made) -> MadeFiles:
    """What the kernel would show of it."""
    everything = of(range(made.cpus))
    online = everything & ~parse(made.offline)
    texts = {"cpu/online": show(online), "cpu/isolated": show(parse(made.isolated))}
    per_numa = made.ccxs * made.cores
    for core in range(made.all_cores):
        threads = made.threads_of(core)
        numa = core // per_numa
        shares = {
            "ccx": made.group(core // made.cores, made.cores),
            "socket": made.group(core // (per_numa * made.numas), per_numa * made.numas),
        }
        for cpu in threads:
            folder = f"cpu/cpu{cpu}"
            if not online >> cpu & 1:
                texts[f"{folder}/online"] = "0"
                continue
            package = cpu if made.packages_by_cpu else numa // made.numas
            texts[f"{folder}/topology/physical_package_id"] = str(package)
            texts[f"{folder}/topology/core_cpus_list"] = show(of(threads) & online)
            # An index that is not the level: the instruction cache stands between.
            for index, (level, shared) in enumerate([(1, of(threads)), (1, of(threads)), (2, of(threads))]):
                texts[f"{folder}/cache/index{index}/level"] = str(level)
                texts[f"{folder}/cache/index{index}/shared_cpu_list"] = show(shared & online)
            if made.l3 != "none":
                shared = shares.get(made.l3, 1 << cpu)
                texts[f"{folder}/cache/index3/level"] = "3"
                texts[f"{folder}/cache/index3/size"] = "8192K"
                if made.ids != "none":
                    ccx = made.group(core // made.cores, made.cores)
                    named = ccx if made.ids == "ccx" else shared
                    texts[f"{folder}/cache/index3/id"] = str(named & -named)
                texts[f"{folder}/cache/index3/shared_cpu_list"] = show(shared & online)
    if made.numa_files:
        texts |= _nodes(made, online, per_numa)
    return MadeFiles(texts)


def _nodes(made: Made, online: int, per_numa: int) -> dict[str, str]:
    files = {}
    with_cpus = made.sockets * made.numas
    nodes = with_cpus + made.memory_nodes
    for node in range(nodes):
        row = [_distance(made, node, other, with_cpus) for other in range(nodes)]
        cpus = made.group(node, per_numa) & online if node < with_cpus else 0
        files[f"node/node{node}/cpulist"] = show(cpus)
        files[f"node/node{node}/distance"] = " ".join(str(distance) for distance in row)
        files[f"node/node{node}/meminfo"] = f"Node {node} MemTotal:       {made.memory_gib << 20} kB"
    return files


def _distance(made: Made, one: int, other: int, with_cpus: int) -> int:
    if one == other:
        return 10
    if max(one, other) >= with_cpus:
        return 50
    return made.near if one // made.numas == other // made.numas else made.far


@functools.cache
def machine(made: Made | str, cache: CacheChoice = "auto") -> Machine:
    """A machine as the agent reads it."""
    return topology.read(files(MACHINES[made] if isinstance(made, str) else made), cache)


def ccx_lists(found: Machine) -> list[str]:
    """The CCXs as the kernel writes them."""
    return [show(ccx.cpus) for ccx in found.ccxs]


__all__ = ["MACHINES", "Made", "MadeFiles", "ccx_lists", "files", "machine", "members", "write"]
