# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the configuration says about taking memory back, and about holding pods to their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from colocation.common.config import Between

Percent = Annotated[float, Between(0, 50)]


def absolute_or_none(path: str) -> str | None:
    """A check: an absolute path, or nothing."""
    return None if not path or path.startswith("/") else f'"{path}" does not begin with /'


@dataclass(frozen=True, slots=True)
class Pressure:
    """When the kernel is to wake us: tasks stood still for want of memory for so long within a window."""

    stall_ms: Annotated[int, Between(1, 10_000)] = 100
    window_ms: Annotated[int, Between(500, 10_000)] = 1000

    def complaints(self) -> Iterator[tuple[str, str]]:
        if self.stall_ms > self.window_ms:
            yield "stall_ms", f"can't be longer than the window of {self.window_ms} ms"


@dataclass(frozen=True, slots=True)
class Victims:
    """Which pods may be told to go, and how."""

    unmanaged: bool = True  # pods without a controller, which nobody starts again
    static: bool = False  # pods from a file of the node: no eviction moves them, the last rung only
    budgets: Literal["until_hard", "always"] = "until_hard"  # how long disruption budgets are honoured


@dataclass(frozen=True, slots=True)
class Migrate:
    """How to see whether another node has free blocks. The kubelet's own identity does not see other nodes."""

    kubeconfig: Annotated[str, absolute_or_none] = ""  # of one who may list nodes and pods; without it nothing migrates


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Who the agent is for the API."""

    kubeconfig: Annotated[str, absolute_or_none] = "/var/lib/colocation/credentials/kubeconfig"  # none: no evictions
    node: str = ""  # the Node's name; by default the host's, as the kubelet has it


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The whole section."""

    enforce: bool = True  # hold each pod to its blocks by a limit on its control group
    enabled: bool = True
    dry_run: bool = False
    soft_percent: Percent = 5.0  # of the node's memory available: less, and pods are told to go
    hard_percent: Percent = 3.0  # less, and they are ended at once, without the API
    check_seconds: Annotated[float, Between(1, 3600)] = 13.0
    cooldown_seconds: Annotated[float, Between(1, 3600)] = 30.0  # between two rounds above the hard watermark
    rest_seconds: Annotated[float, Between(0, 3600)] = 60.0  # in which blocks of a pod that went are not offered
    over_allocation: Literal["evict", "tolerate"] = "evict"  # pods hold more blocks than the node can give
    pressure: Pressure = field(default_factory=Pressure)
    victims: Victims = field(default_factory=Victims)
    migrate: Migrate = field(default_factory=Migrate)

    def complaints(self) -> Iterator[tuple[str, str]]:
        if self.hard_percent >= self.soft_percent and self.enabled:
            yield "hard_percent", f"must be less than soft_percent, which is {self.soft_percent:g}"
