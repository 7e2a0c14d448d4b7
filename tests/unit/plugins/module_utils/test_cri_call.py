# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import (
    SERVICE,
    Container,
    ContainerRuntime,
    RuntimeSilent,
    Sandbox,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.test_kubelet_answers import field


class Socket:
    """Answers by method, and what was asked."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers = answers
        self.asked: list[tuple[str, bytes]] = []

    def __call__(self, path: str, method: str, request: bytes, timeout: float) -> bytes:
        name = method.removeprefix(SERVICE)
        self.asked.append((name, request))
        answer = self.answers.get(name, b"")
        if isinstance(answer, Exception):
            raise answer
        return answer


def _runtime(**answers: Any) -> tuple[ContainerRuntime, Socket]:
    socket = Socket(**answers)
    return ContainerRuntime("/run/x.sock", ask=socket), socket


def test_pods_and_containers() -> None:
    def pod(name: str, state: int) -> bytes:
        named = field(1, name.encode()) + field(2, b"uid") + field(3, b"default")
        return field(1, field(1, f"id-{name}".encode()) + field(2, named) + field(3, state) + field(9, b"new"))

    def container(name: str, state: int, grace: str = "") -> bytes:
        note = field(9, field(1, b"io.kubernetes.pod.terminationGracePeriod") + field(2, grace.encode()))
        return field(1, field(1, name.encode()) + field(2, b"pod") + field(6, state) + (note if grace else b""))

    runtime, _socket = _runtime(
        ListPodSandbox=pod("a", 0) + pod("b", 1),
        ListContainers=container("created", 0)
        + container("runs", 1)
        + container("slow", 1, "60")
        + container("exited", 2)
        + container("lost", 3),
        Version=field(1, b"0.1.0") + field(2, b"containerd") + field(3, b"v2.3.0"),
    )
    assert runtime.sandboxes() == [Sandbox("id-a", "default/a", True), Sandbox("id-b", "default/b", False)]
    assert runtime.running() == [Container("runs"), Container("slow", 60)]
    assert runtime.version() == "containerd v2.3.0"


def test_requests() -> None:
    runtime, socket = _runtime()
    runtime.stop_container("c" * 200, 300)
    runtime.stop_sandbox("pod")
    assert socket.asked == [
        ("StopContainer", field(1, b"c" * 200) + field(2, 300)),
        ("StopPodSandbox", field(1, b"pod")),
    ]


@pytest.mark.parametrize("answer", [b"\x0a\xff", field(1, field(1, b"\xff\xfe")), os.urandom(0) + b"\x07"])
def test_an_answer_that_is_none(answer: bytes) -> None:
    runtime, _socket = _runtime(ListContainers=answer, ListPodSandbox=answer)
    for ask in (runtime.running, runtime.sandboxes):
        try:
            ask()
        except RuntimeSilent as problem:
            assert "can't be read" in str(problem)


def test_no_answer() -> None:
    runtime, _socket = _runtime(Version=CallError("/run/x.sock: Connection refused"))
    with pytest.raises(RuntimeSilent, match="Version: /run/x.sock: Connection refused"):
        runtime.version()
