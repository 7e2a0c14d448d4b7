# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the CRI proxy's configuration may say.

/etc/cri-resmgr/fallback.cfg was cri-resource-manager's, and its users' files go on working: `policy` and `logger` are
read as they wrote them. What they say of things that do not exist here is accepted and listed in `ignored`; all of ours
is in sections of its own, in small letters.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

from colocation.common.command_line import Port
from colocation.common.config import KEY, Between, ConfigError, ip_address, load
from colocation.cri_proxy import cpus as cpu_sets
from colocation.cri_proxy.topology import Machine

_SALVAGED = ("listen", "runtime", "state_dir", "cgroup_dir", "status")
FILE = "/etc/cri-resmgr/fallback.cfg"
MOST_PATH = 107  # what the kernel takes as the path of a socket
PREFIX = "cpuset:"
UNKNOWN = "unknown"  # the policy of a file that can't be read; no file can say so
_OTHERS = ("balloons", "podpools", "static", "static-plus", "static-pools", "dynamic-pools", "eda")


def cpus_or_count(value: Any) -> str | None:
    """A check: CPUs by number ("cpuset:0-3") or how many (2, "750m")."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return 'must be a count such as 2 or "750m", or CPUs such as "cpuset:0-3"'
    text = str(value)
    if text.startswith(PREFIX):
        return _cpu_list(text)
    number, scale = (text[:-1], 1000) if text.endswith("m") else (text, 1)
    try:
        count = Decimal(number) / scale
    except InvalidOperation:
        return f'"{text[:40]}" is no count such as 2 or "750m", nor CPUs such as "cpuset:0-3"'
    return (
        None
        if count.is_finite() and 0 <= count <= cpu_sets.MOST_CPUS
        else f"must be between 0 and all CPUs, not {text}"
    )


def cpu_list(value: Any) -> str | None:
    """A check: CPUs by number."""
    if isinstance(value, str) and value.startswith(PREFIX):
        return _cpu_list(value)
    return 'must be CPUs such as "cpuset:4-63"'


def _cpu_list(text: str) -> str | None:
    try:
        cpu_sets.parse(text.removeprefix(PREFIX))
    except cpu_sets.BadCpuList as problem:
        return str(problem)
    return None


def active_policy(name: str) -> str | None:
    """A check: a policy that exists here."""
    if name in ("topology-aware", "memtier", "none"):
        return None
    if name in _OTHERS:
        return (
            f'"{name}" does not exist here; "topology-aware" places containers by caches, "none" only passes calls on'
        )
    return f'"{name}" is no policy; it may be "topology-aware" or "none"'


def socket_path(text: str) -> str | None:
    """A check: the path of a unix socket, with or without unix://."""
    path = plain_path(text)
    if not path.startswith("/"):
        return f'"{text}" does not begin with / or unix:///'
    return (
        None if len(path.encode()) <= MOST_PATH else f"is longer than {MOST_PATH} bytes; sockets can't be so far down"
    )


def plain_path(text: str) -> str:
    """The path of a socket that may be written as a URL."""
    return text.removeprefix("unix://")


def same_socket(one: str, other: str) -> bool:
    """Whether two paths name one socket. Links are not followed: where the proxy could not start, its own is one."""

    def named(text: str) -> str:
        path = "/" + os.path.normpath(plain_path(text)).lstrip("/")
        return path.removeprefix("/var") if path.startswith("/var/run/") else path

    return named(one) == named(other)


def absolute(text: str) -> str | None:
    """A check: an absolute path."""
    return None if text.startswith("/") else f'"{text}" does not begin with /'


@dataclass(frozen=True, slots=True)
class ReservedResources:
    """CPUs that no container is placed on."""

    CPU: Annotated[Any, cpus_or_count] = 0


@dataclass(frozen=True, slots=True)
class AvailableResources:
    """CPUs outside of which no container is placed."""

    CPU: Annotated[Any, cpu_list] = ""


@dataclass(frozen=True, slots=True)
class TopologyAware:
    """The old policy's own section. What has no meaning here is accepted."""

    PinCPU: bool = True
    PinMemory: bool = False
    ReservedPoolNamespaces: tuple[str, ...] = ()  # run on the reserved CPUs
    PreferIsolatedCPUs: Any = None
    PreferSharedCPUs: Any = None
    PreferReservedCPUs: Any = None
    ColocatePods: Any = None
    ColocateNamespaces: Any = None
    FakeHints: Any = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The section of the old file."""

    Active: Annotated[str, active_policy] = "topology-aware"
    ReservedResources: ReservedResources = field(default_factory=ReservedResources)
    AvailableResources: AvailableResources = field(default_factory=AvailableResources)
    topology_aware: TopologyAware = field(default_factory=TopologyAware, metadata={KEY: "topology-aware"})


@dataclass(frozen=True, slots=True)
class Logger:
    """The old file's; `Debug` turns our debug lines on, whatever it names."""

    Debug: Any = None
    Source: Any = None
    Klog: Any = None


@dataclass(frozen=True, slots=True)
class Placement:
    """How places are chosen."""

    cpus: Literal["request", "limit"] = "request"  # what a container wants: its shares, or its quota where it has one
    ccx: Literal["auto", "l3", "numa"] = "auto"
    exclusive: bool = False  # pods of quality Guaranteed get whole CPUs alone
    separate_batch: bool = True  # batch containers stay away from online ones
    exempt_namespaces: tuple[str, ...] = ("kube-system",)  # run anywhere
    check_seconds: Annotated[float, Between(1, 3600)] = 10.0  # effective cpusets against the ledger
    rebalance_seconds: Annotated[int, Between(0, 86400)] = 0  # 0 for never
    rebalance_moves: Annotated[int, Between(1, 100)] = 2  # in a round


@dataclass(frozen=True, slots=True)
class Blocks:
    """The device plugin's memory blocks: whose holders are batch, and how large their memory may get."""

    resource: str = "test.com/colocation-memory"
    mib: Annotated[int, Between(1, 1 << 20)] = 512  # of a block, where the plugin does not tell the bytes
    per_numa_node: bool = False  # blocks are named by NUMA node, as the plugin's setting of this name says
    limit_memory: bool = True


@dataclass(frozen=True, slots=True)
class StatusPage:
    """Where the status page and the metrics are. Another address than loopback shows them to the network."""

    address: Annotated[str, ip_address] = "127.0.0.1"
    port: Port = 9463


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    policy: Policy = field(default_factory=Policy)
    logger: Logger = field(default_factory=Logger)
    dump: Any = None
    instrumentation: Any = None
    placement: Placement = field(default_factory=Placement)
    blocks: Blocks = field(default_factory=Blocks)
    listen: Annotated[str, socket_path] = "/var/run/cri-resmgr/cri-resmgr.sock"
    runtime: Annotated[str, socket_path] = "/run/containerd/containerd.sock"
    state_dir: Annotated[str, absolute] = "/var/lib/cri-resmgr"
    cgroup_dir: Annotated[str, absolute] = "/sys/fs/cgroup"
    kubelet_dir: Annotated[str, absolute] = "/var/lib/kubelet"
    sysfs_root: Annotated[str, absolute] = "/"  # another machine's description is under its sys/devices/system
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    status: StatusPage = field(default_factory=StatusPage)

    def complaints(self) -> Iterator[tuple[str, str]]:
        if same_socket(self.listen, self.runtime):
            yield "listen", "is the runtime's own socket; the proxy would call itself"

    @property
    def places(self) -> bool:
        """Whether containers are placed at all, or calls are only passed on."""
        return self.policy.Active not in ("none", UNKNOWN)

    @property
    def is_known(self) -> bool:
        """Whether somebody said it; of what is in force instead of a bad file nothing follows for what runs."""
        return self.policy.Active != UNKNOWN

    @property
    def level(self) -> str:
        return self.log_level or ("debug" if self.logger.Debug else "info")

    @property
    def ignored(self) -> tuple[str, ...]:
        """Keys of the old file that were given and mean nothing here."""
        old = self.policy.topology_aware
        prefer = ("PreferIsolatedCPUs", "PreferSharedCPUs", "PreferReservedCPUs")
        names = (*prefer, "ColocatePods", "ColocateNamespaces", "FakeHints")
        inside = tuple(f"policy.topology-aware.{name}" for name in names if getattr(old, name) is not None)
        return (*inside, *(name for name in ("dump", "instrumentation") if getattr(self, name) is not None))


PIPE = Config(policy=Policy(Active=UNKNOWN))  # what is in force where there is nothing better: calls are passed on


def reserved_cpus(config: Config, machine: Machine) -> int:
    """The CPUs that no container is placed on. A count is taken core by core, from the lowest number."""
    available = str(config.policy.AvailableResources.CPU)
    outside = machine.online & ~cpu_sets.parse(available.removeprefix(PREFIX)) if available else 0
    return outside | system_cpus(config, machine)


def system_cpus(config: Config, machine: Machine) -> int:
    """What `ReservedResources` names or counts."""
    wanted = str(config.policy.ReservedResources.CPU)
    if wanted.startswith(PREFIX):
        return cpu_sets.parse(wanted.removeprefix(PREFIX)) & machine.online
    count = math.ceil(Decimal(wanted.removesuffix("m")) / (1000 if wanted.endswith("m") else 1))
    cores = sorted((core for ccx in machine.ccxs for core in ccx.cores), key=lambda core: core & -core)
    free = (cpu for core in cores for cpu in cpu_sets.members(core & ~machine.isolated))
    return cpu_sets.of(cpu for cpu, _number in zip(free, range(count), strict=False))


def variable_name(resource: str) -> str:
    """The environment variable in which the device plugin names a container's devices."""
    return re.sub(r"[^A-Z0-9]", "_", resource.upper())


def salvaged(file: str) -> Config:
    """What to run with where the file is bad: calls are passed on, at the places that it names if these can be read."""
    try:
        lines = Path(file).read_bytes()[: 1 << 20].decode(errors="replace").splitlines(keepends=True)
    except OSError:
        return PIPE
    named: dict[str, Any] = {}
    for section in _sections(lines):
        key = section.partition(":")[0].strip("\"' ")
        if key in _SALVAGED:
            with contextlib.suppress(ConfigError):
                named[key] = getattr(load(Config, section, file), key)
    found = replace(PIPE, **named)
    return PIPE if any(found.complaints()) else found


def _sections(lines: list[str]) -> Iterator[str]:
    """A text's keys, each with what is indented under it."""
    section = ""
    for line in lines:
        if section and not line[:1].isspace() and not line.startswith("#"):
            yield section
            section = ""
        section += line
    yield section
