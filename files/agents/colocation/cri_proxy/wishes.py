# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a container wants, read from what the kubelet says of it. Pure.

The CRI carries no requests, only what the kubelet made of them: shares (1024 a CPU) and a quota. Pods have their say by
annotations; `.name` behind a key makes it one for that container only.

    cri-resmgr/placement: none | ccx | numa | numa-ccx | two-numa | socket | machine
    cri-resmgr/cpus: request | limit | 6
    cri-resmgr/numa: "1"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from colocation.cri_proxy.calls import Pod, Resources
from colocation.cri_proxy.config import Blocks, Config, Placement, variable_name
from colocation.cri_proxy.placement import Shape, Want

PREFIX = "cri-resmgr"
LEAST_SHARES = 2  # what the kubelet writes for no request
SHARES_PER_CPU = 1024
SHAPES = {shape.name.lower().replace("_", "-"): shape for shape in Shape}
_COUNT = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?")
_BLOCK = re.compile(r"[A-Za-z0-9.]+-([0-9]{1,3})-[0-9]{1,9}")  # a prefix, the NUMA node, a number
# What the device plugin says of blocks, by annotation and by environment.
BLOCKS_ANNOTATION, BYTES_ANNOTATION = "colocation-memory/blocks", "colocation-memory/bytes"
BYTES_VARIABLE = "COLOCATION_MEMORY_BYTES"


@dataclass(frozen=True, slots=True)
class Wish:
    """A container's want, and what else follows from what was said of it."""

    want: Want
    pinned: bool = True  # False: it may run anywhere
    on_reserved: bool = False  # it runs on the system's CPUs
    blocks: int = 0  # bytes of memory that it holds as blocks
    mistakes: tuple[str, ...] = ()  # annotations that say nothing


@dataclass(frozen=True, slots=True)
class Said:
    """All that is known of a container, before it exists or when it is found running."""

    pod: Pod
    container: str
    resources: Resources
    annotations: Mapping[str, str]
    environment: Mapping[str, str]


def read(said: Said, config: Config) -> Wish:
    """What a container wants."""
    rules, mistakes = config.placement, list[str]()
    placement = _annotation(said, "placement")
    shape = SHAPES.get(placement)
    if placement and placement != "none" and shape is None:
        mistakes.append(f'{PREFIX}/placement: "{placement}" is none of none, {", ".join(SHAPES)}')
    milli = _milli(said, rules, mistakes)
    held, numas = blocks(said, config.blocks)
    numas |= _numa(said, mistakes)
    alone = milli // 1000 if rules.exclusive and shape is None and is_integer_guaranteed(said) else 0
    reserved = said.pod.namespace in config.policy.topology_aware.ReservedPoolNamespaces
    pinned = placement != "none" and (reserved or said.pod.namespace not in rules.exempt_namespaces)
    want = Want(milli, bool(held), 0, numas, shape, alone)
    return Wish(want, pinned and config.policy.topology_aware.PinCPU, reserved, held, tuple(mistakes))


def requested_milli(shares: int) -> int:
    """Thousandths of a CPU that shares were made of."""
    return 0 if shares <= LEAST_SHARES else -(-shares * 1000 // SHARES_PER_CPU)


def limited_milli(resources: Resources) -> int:
    """Thousandths of a CPU that the quota allows; 0 for no limit."""
    if resources.cpu_quota <= 0 or resources.cpu_period <= 0:
        return 0
    return resources.cpu_quota * 1000 // resources.cpu_period


def is_integer_guaranteed(said: Said) -> bool:
    """Whether a Guaranteed pod asks for whole CPUs here. The kubelet names the lower qualities in cgroups."""
    parent = said.pod.cgroup_parent
    if "kubepods" not in parent or "burstable" in parent or "besteffort" in parent:
        return False
    milli = requested_milli(said.resources.cpu_shares)
    return milli >= 1000 and milli % 1000 == 0 and limited_milli(said.resources) == milli


def blocks(said: Said, rules: Blocks) -> tuple[int, int]:
    """Bytes of memory that a container holds as blocks, and the NUMA nodes that these are on."""
    annotations, environment = said.annotations, said.environment
    listed = annotations.get(BLOCKS_ANNOTATION) or environment.get(variable_name(rules.resource)) or ""
    found = [match for match in map(_BLOCK.fullmatch, listed.split(",")) if match]
    numas = 0
    for match in found if rules.per_numa_node else ():
        numas |= 1 << int(match[1])
    told = annotations.get(BYTES_ANNOTATION) or environment.get(BYTES_VARIABLE) or ""
    size = int(told) if told.isascii() and told.isdigit() and len(told) < 19 else len(found) * rules.mib << 20
    return size if found else 0, numas


def _milli(said: Said, rules: Placement, mistakes: list[str]) -> int:
    basis = _annotation(said, "cpus")
    if _COUNT.fullmatch(basis):
        return round(float(basis) * 1000)
    if basis not in ("", "request", "limit"):
        mistakes.append(f'{PREFIX}/cpus: "{basis}" is none of request, limit or a count')
        basis = ""
    requested = requested_milli(said.resources.cpu_shares)
    return limited_milli(said.resources) or requested if (basis or rules.cpus) == "limit" else requested


def _numa(said: Said, mistakes: list[str]) -> int:
    wanted = _annotation(said, "numa")
    if not wanted:
        return 0
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 4):
        mistakes.append(f'{PREFIX}/numa: "{wanted}" is no number of a NUMA node')
        return 0
    return 1 << int(wanted)


def _annotation(said: Said, key: str) -> str:
    """The pod's word for this container, or for all of its containers."""
    annotations = said.pod.annotations
    own = annotations.get(f"{PREFIX}/{key}.{said.container}")
    return (own if own is not None else annotations.get(f"{PREFIX}/{key}", "")).strip().lower()
