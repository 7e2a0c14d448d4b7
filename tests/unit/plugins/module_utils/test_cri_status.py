# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a runtime says by CRI."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import (
    METHOD,
    Condition,
    ask_runtime,
    read_status,
    socket_of,
    systemd_cgroup_of,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import ProtobufError


def field(number: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def condition(kind: str, status: bool, reason: str = "", message: str = "") -> bytes:
    words = field(1, kind.encode()) + (b"\x10\x01" if status else b"")
    return field(1, words + field(3, reason.encode()) + field(4, message.encode()))


def status(*conditions: bytes, **info: str) -> bytes:
    entries = [field(2, field(1, key.encode()) + field(2, value.encode())) for key, value in info.items()]
    return field(1, b"".join(conditions)) + b"".join(entries)


def config(systemd: object) -> str:
    return json.dumps({"containerd": {"runtimes": {"runc": {"options": {"SystemdCgroup": systemd}}}}})


def test_conditions_and_the_driver_of_the_process() -> None:
    answer = status(
        condition("RuntimeReady", True),
        condition("NetworkReady", False, "NetworkPluginNotReady", "cni config uninitialized"),
        config=config(True),
    )
    read = read_status("s", answer)
    assert read.conditions == (
        Condition("RuntimeReady", "True"),
        Condition("NetworkReady", "False", "NetworkPluginNotReady", "cni config uninitialized"),
    )
    assert read.systemd_cgroup is True
    assert read.conditions[1].words == "NetworkPluginNotReady: cni config uninitialized"


@pytest.mark.parametrize(
    ("text", "systemd"),
    [(config(False), False), (config("yes"), None), ("{}", None), ("", None), ('{"containerd": [1]}', None)],
)
def test_a_driver_that_is_not_said(text: str, systemd: bool | None) -> None:
    assert systemd_cgroup_of(text) is systemd


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("unix:///run/c.sock", "/run/c.sock"), ("/run/c.sock", "/run/c.sock"), ("tcp://h:1", ""), ("", "")],
)
def test_endpoints(endpoint: str, path: str) -> None:
    assert socket_of(endpoint) == path


def test_one_that_starts_is_asked_again() -> None:
    asked: list[str] = []

    def ask(_socket: str, method: str, _request: bytes, _timeout: float) -> bytes:
        asked.append(method)
        if len(asked) < 3:
            raise CallError("it answers unknown: server is not initialized yet")
        return status(condition("RuntimeReady", True))

    answer = ask_runtime("s", 30, ask, lambda _seconds: None)
    assert (answer.problem, asked) == ("", [METHOD] * 3)


def test_one_that_refuses_is_not() -> None:
    asked: list[float] = []

    def ask(_socket: str, _method: str, _request: bytes, timeout: float) -> bytes:
        asked.append(timeout)
        raise CallError("it answers unimplemented: unknown service")

    assert ask_runtime("s", 30, ask).problem == "it answers unimplemented: unknown service"
    assert len(asked) == 1


def test_one_that_hangs_is_left_in_time(tmp_path: Path) -> None:
    """A real socket that takes the connection and says nothing, as a stopped containerd does."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        began = time.monotonic()
        answer = ask_runtime(str(path), 0.6)
        assert time.monotonic() - began < 5
    assert "did not answer within" in answer.problem


@given(st.binary(max_size=200))
def test_no_answer_is_a_traceback(answer: bytes) -> None:
    try:
        read_status("s", answer)
    except ProtobufError:
        pass
