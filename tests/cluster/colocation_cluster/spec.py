# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a cluster should look like, as the command line says it: versions, and a shape for each node.

A node is written `SHAPE[,key=value…]`: `plain`, `dhyana,memory=4G`, `plain,disk=1G,swap=512M`.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from .say import ClusterError

UNITS = {"M": 1, "G": 1024}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One worker's hardware. Memory in MiB; `far` is the memory of a NUMA node without processors."""

    shape: str = "plain"
    cpus: int = 1  # emulated, a second one costs more than it brings
    memory: int = 2048
    sockets: int = 1
    dies: int = 1
    far: int = 0
    cpu: str = ""
    disks: tuple[int, ...] = ()
    swap: int = 0  # one more disk, formatted as swap and switched on
    suite: str = ""  # another Debian than the cluster's


SHAPES = {
    "plain": NodeSpec(),
    # Two sockets of two dies: 2 NUMA nodes x 2 CCX, as far as QEMU can say it.
    "dhyana": NodeSpec("dhyana", cpus=8, memory=4096, sockets=2, dies=2, cpu="Dhyana"),
    # A pool of memory behind CXL looks like a NUMA node without processors.
    "cxl": NodeSpec("cxl", cpus=4, memory=2048, far=2048),
}


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Everything that decides what a saved cluster contains."""

    nodes: tuple[NodeSpec, ...] = (NodeSpec(),)
    kubernetes: str = "1.36"
    suite: str = "trixie"
    containerd: str = "debian"

    def names(self) -> tuple[str, ...]:
        """Node names, in order."""
        return tuple(f"worker{index}" for index in range(1, len(self.nodes) + 1))


def parse_node(text: str) -> NodeSpec:
    """Read `SHAPE[,key=value…]`; an error names what can be said."""
    shape, *settings = text.split(",")
    if shape not in SHAPES:
        raise ClusterError(f"no node shape {shape!r}; there are {', '.join(SHAPES)}")
    spec = SHAPES[shape]
    for setting in settings:
        key, dummy, value = setting.partition("=")
        if key == "disk":
            spec = dataclasses.replace(spec, disks=(*spec.disks, parse_size(value)))
        elif key == "memory":
            spec = dataclasses.replace(spec, memory=parse_size(value))
        elif key == "far":
            spec = dataclasses.replace(spec, far=parse_size(value))
        elif key == "swap":
            spec = dataclasses.replace(spec, swap=parse_size(value))
        elif key == "suite" and value.isalpha():
            spec = dataclasses.replace(spec, suite=value)
        elif key == "cpus" and value.isdigit() and int(value) % (spec.sockets * spec.dies) == 0 and int(value) > 0:
            spec = dataclasses.replace(spec, cpus=int(value))
        else:
            raise ClusterError(
                f"node {text!r}: can't read {setting!r}; say memory=2G, far=1G, cpus=4 "
                f"(a multiple of {spec.sockets * spec.dies}), disk=1G (more than once), swap=512M, suite=bookworm"
            )
    return spec


def parse_size(text: str) -> int:
    """MiB of a size like 512M or 2G."""
    match = re.fullmatch(r"([1-9]\d{0,5})([MG])", text)
    if match is None:
        raise ClusterError(f"can't read the size {text!r}; write 512M or 2G")
    return int(match[1]) * UNITS[match[2]]
