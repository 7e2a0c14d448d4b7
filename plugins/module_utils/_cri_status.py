# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a container runtime says of itself by CRI: is it ready, is its network, and which cgroup driver it runs with.

Asked at the socket, for a daemon that systemd calls active may hang. Field numbers are those of runtime/v1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError, call
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import (
    ProtobufError,
    messages,
    number,
    text,
    text_map,
)

METHOD = "/runtime.v1.RuntimeService/Status"
SOCKET = "/run/containerd/containerd.sock"
VERBOSE = b"\x08\x01"  # StatusRequest.verbose
PAUSE = 0.5
NOT_YET = ("not initialized", "unavailable", "No such file", "Connection refused")

Call = Callable[[str, str, bytes, float], bytes]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the runtime or of a Node."""

    type: str
    status: str  # "True", "False", "Unknown"
    reason: str = ""
    message: str = ""

    @property
    def words(self) -> str:
        return ": ".join(part for part in (self.reason, self.message) if part) or self.status


@dataclass(frozen=True, slots=True)
class CriAnswer:
    """What came of the question at one socket."""

    socket: str
    problem: str  # why there is no answer; empty when there is
    conditions: tuple[Condition, ...] = ()
    systemd_cgroup: bool | None = None  # of the running daemon, not of its file; None: it does not say


def socket_of(endpoint: str) -> str:
    """The path in a runtime endpoint; empty for what is no unix socket."""
    if endpoint.startswith("unix://"):
        return endpoint.removeprefix("unix://")
    return endpoint if endpoint.startswith("/") else ""


def ask_runtime(
    socket: str, timeout: float, ask: Call = call, sleep: Callable[[float], None] = time.sleep
) -> CriAnswer:
    """Its status; one that is only starting is asked again until the time is over."""
    end = time.monotonic() + timeout
    while True:
        try:
            return read_status(socket, ask(socket, METHOD, VERBOSE, max(PAUSE, end - time.monotonic())))
        except (CallError, ProtobufError) as problem:
            words = str(problem)
        if time.monotonic() + PAUSE >= end or not any(word in words for word in NOT_YET):
            return CriAnswer(socket, words)
        sleep(PAUSE)


def read_status(socket: str, answer: bytes) -> CriAnswer:
    """A StatusResponse."""
    conditions = tuple(
        Condition(text(one, 1), "True" if number(one, 2) else "False", text(one, 3), text(one, 4))
        for status in messages(answer, 1)
        for one in messages(status, 1)
    )
    return CriAnswer(socket, "", conditions, systemd_cgroup_of(text_map(answer, 2).get("config", "")))


def systemd_cgroup_of(config: str) -> bool | None:
    """SystemdCgroup of the runtime runc in the configuration that containerd runs with."""
    try:
        tree: Any = json.loads(config)
    except (ValueError, RecursionError):
        return None
    for key in ("containerd", "runtimes", "runc", "options", "SystemdCgroup"):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, bool) else None
