# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the device plugin's configuration may say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal

from colocation.common.command_line import Port
from colocation.common.config import Between, absolute, ip_address
from colocation.device_plugin.gpu_config import GpuMemory
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.reclaim_config import Kubernetes, Reclaim

_PREFIX = re.compile(r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/.*")
_NAME = re.compile(r".*/(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
MOST_PATH = 107  # what the kernel takes as the path of a socket
LONGEST_SOCKET_NAME = 64


def resource_name(name: str) -> str | None:
    """A check: the kubelet takes the name as an extended resource."""
    domain = name.partition("/")[0]
    if name.count("/") != 1 or not _PREFIX.fullmatch(name) or not _NAME.fullmatch(name):
        return f'"{name}" is no name of a resource, such as "mock.com/gpu"'
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests."):
        return f'the kubelet keeps names such as "{name}" for itself'
    return None


def socket_directory(path: str) -> str | None:
    """A check: a directory in which the paths of sockets stay short enough."""
    room = MOST_PATH - LONGEST_SOCKET_NAME - 1
    long = f"is longer than {room} characters; paths of sockets can't be so long" if len(path) > room else None
    return absolute(path) or long


Resource = Annotated[str, resource_name]


@dataclass(frozen=True, slots=True)
class StatusPage:
    """Where the status page and the metrics are. Another address than loopback shows them to the network."""

    address: Annotated[str, ip_address] = "127.0.0.1"
    port: Port = 9461


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    kubelet_dir: Annotated[str, socket_directory] = "/var/lib/kubelet/device-plugins"
    stream_grace_seconds: Annotated[float, Between(1, 600)] = 15.0  # the kubelet must watch by then, or we start anew
    retry_seconds: Annotated[float, Between(0.1, 600)] = 5.0
    pod_resources_socket: Annotated[str, absolute] = "/var/lib/kubelet/pod-resources/kubelet.sock"
    cgroup_root: Annotated[str, absolute] = "/sys/fs/cgroup"
    refresh_seconds: Annotated[float, Between(0.1, 600)] = 10.0  # between two looks at holders and memory
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    status: StatusPage = field(default_factory=StatusPage)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    mock: Mapping[Resource, Annotated[int, Between(0, 1_000_000)]] = field(default_factory=lambda: MappingProxyType({}))
    memory: Mapping[Resource, Memory] = field(default_factory=lambda: MappingProxyType({}))
    reclaim: Reclaim = field(default_factory=Reclaim)  # of that memory
    gpu: Mapping[Resource, GpuMemory] = field(default_factory=lambda: MappingProxyType({}))

    def complaints(self) -> Iterator[tuple[str, str]]:
        if len(self.memory) > 1:
            yield "memory", "a node's memory can be offered as one resource only"
        if len(self.gpu) > 1:
            yield "gpu", "a node's GPUs can be offered as one resource only"
        for name in sorted(self.mock.keys() & self.memory.keys()):
            yield "memory", f'"{name}" is a resource of mock already'
        for name in sorted(self.gpu.keys() & (self.mock.keys() | self.memory.keys())):
            yield "gpu", f'"{name}" is a resource of another source already'
        for resource, settings in self.gpu.items():
            for name in filter(None, (settings.count_resource, settings.core_resource)):
                if complaint := resource_name(name):
                    yield "gpu", complaint
                elif name in (resource, *self.mock, *self.memory):
                    yield "gpu", f'"{name}" is a resource that is offered already'
