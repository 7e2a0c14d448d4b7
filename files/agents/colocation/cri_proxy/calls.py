# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the relay and the policy tell each other: values of plain Python, no bytes and no protobuf.

The relay asks (`create`, `resize`), sends on what the policy answers, and tells how it ended and what else it saw
(`observe`). For each request that it asked about, exactly one of the endings follows, also if the policy raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Resources:
    """The kubelet's wish for a container; 0 and "" are what it did not say."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    oom_score_adj: int = 0


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a sandbox."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""


@dataclass(frozen=True, slots=True)
class Creation:
    """A CreateContainer request that is held. `key` tells it from all others of this process."""

    key: int
    sandbox_id: str
    pod: Pod
    container: str
    attempt: int
    resources: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resize:
    """An UpdateContainerResources request that is held."""

    key: int
    container_id: str
    resources: Resources
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """What to set in a held request; None leaves the kubelet's word, and without any the bytes stay the same."""

    cpuset_cpus: str | None = None
    cpuset_mems: str | None = None
    memory_limit: int | None = None

    def __bool__(self) -> bool:
        return (self.cpuset_cpus, self.cpuset_mems, self.memory_limit) != (None, None, None)


@dataclass(frozen=True, slots=True)
class SandboxCreated:
    sandbox_id: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class SandboxStopped:
    """Its containers have ended too."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class SandboxRemoved:
    """Its containers have gone too."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class ContainerCreated:
    """The ending of a `Creation` that the runtime did."""

    key: int
    container_id: str


@dataclass(frozen=True, slots=True)
class CreationFailed:
    """The other ending. Not `certain` where nobody heard the runtime's answer: it may have made the container."""

    key: int
    reason: str
    certain: bool


@dataclass(frozen=True, slots=True)
class ContainerResized:
    """The ending of a `Resize` that the runtime did."""

    key: int
    container_id: str


@dataclass(frozen=True, slots=True)
class ResizeFailed:
    """The other ending; see `CreationFailed`."""

    key: int
    container_id: str
    reason: str
    certain: bool


@dataclass(frozen=True, slots=True)
class ContainerStopped:
    """StopContainer succeeded: it runs no more."""

    container_id: str


@dataclass(frozen=True, slots=True)
class ContainerRemoved:
    container_id: str


Event = (
    SandboxCreated
    | SandboxStopped
    | SandboxRemoved
    | ContainerCreated
    | CreationFailed
    | ContainerResized
    | ResizeFailed
    | ContainerStopped
    | ContainerRemoved
)


class Policy(Protocol):
    """Who decides. Called from the relay's one thread, which waits: well under a millisecond, and no I/O.

    Whatever is raised is counted and logged, and the request goes on as the kubelet sent it.
    """

    def create(self, creation: Creation) -> Edit:
        """Where that container goes."""

    def resize(self, resize: Resize) -> Edit:
        """Where it goes with its new resources."""

    def observe(self, event: Event) -> None:
        """Something happened."""
