# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The pods and containers of a node as its container runtime has them, and the means to stop them.

Field numbers are those of runtime.v1 (containerd 1.6 and later, cri-o 1.20 and later). Nodes have no crictl.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError, call
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import (
    ProtobufError,
    messages,
    number,
    text,
    text_map,
)

SERVICE = "/runtime.v1.RuntimeService/"
_READY, _RUNNING = 0, 1
_GRACE = "io.kubernetes.pod.terminationGracePeriod"  # the kubelet's annotation of each container
_QUESTION = 15.0  # seconds for an answer that changes nothing
T = TypeVar("T")
Call = Callable[[str, str, bytes, float], bytes]


class RuntimeSilent(Exception):
    """The container runtime gives no answer that can be used; the text says what it said."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    id: str
    name: str  # namespace/pod
    ready: bool


@dataclass(frozen=True, slots=True)
class Container:
    """One that runs."""

    id: str
    grace: int | None = None  # seconds that its pod gives it to end; None: the kubelet did not say


class ContainerRuntime:
    """The CRI at a socket."""

    def __init__(self, socket: str, timeout: float = 60, ask: Call = call) -> None:
        self.socket = socket
        self._timeout = timeout
        self._ask = ask

    def version(self) -> str:
        return " ".join(self._read("Version", lambda answer: [text(answer, 2), text(answer, 3)]))

    def sandboxes(self) -> list[Sandbox]:
        return self._read("ListPodSandbox", lambda answer: [_sandbox(one) for one in messages(answer, 1)])

    def running(self) -> list[Container]:
        return self._read(
            "ListContainers",
            lambda answer: [_container(one) for one in messages(answer, 1) if number(one, 6) == _RUNNING],
        )

    def stop_container(self, container: str, grace: int) -> None:
        """End a container: asked first, killed after so many seconds."""
        self._call("StopContainer", _text_field(1, container) + b"\x10" + _varint(grace), self._timeout + grace)

    def stop_sandbox(self, sandbox: str) -> None:
        """End whatever runs in a pod, then take its network away."""
        self._call("StopPodSandbox", _text_field(1, sandbox), self._timeout)

    def _read(self, method: str, read: Callable[[bytes], list[T]]) -> list[T]:
        answer = self._call(method, b"", _QUESTION)
        try:
            return read(answer)
        except ProtobufError as problem:
            raise RuntimeSilent(f"{method}: its answer can't be read: {problem}") from None

    def _call(self, method: str, request: bytes, timeout: float) -> bytes:
        try:
            return self._ask(self.socket, SERVICE + method, request, timeout)
        except CallError as problem:
            raise RuntimeSilent(f"{method}: {problem}") from None


def _container(one: bytes) -> Container:
    said = text_map(one, 9).get(_GRACE, "")
    return Container(text(one, 1), int(said) if said.isdecimal() else None)


def _sandbox(one: bytes) -> Sandbox:
    named = next(messages(one, 2), b"")
    return Sandbox(text(one, 1), f"{text(named, 3)}/{text(named, 1)}", number(one, 3) == _READY)


def _text_field(field: int, value: str) -> bytes:
    content = value.encode()
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
