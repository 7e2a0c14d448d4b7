# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""sd_notify, against a real datagram socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colocation.common.notify import Notifier, from_environment


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(2)
        yield listener


def heard(systemd: socket.socket) -> list[str]:
    return systemd.recv(4096).decode().splitlines()


def test_each_state_is_told(systemd: socket.socket) -> None:
    notifier = Notifier(systemd.getsockname(), 10)
    notifier.ready("two\nlines")
    assert heard(systemd) == ["READY=1", "STATUS=two lines"]
    notifier.watchdog()
    assert heard(systemd) == ["WATCHDOG=1"]
    notifier.status("working")
    assert heard(systemd) == ["STATUS=working"]
    notifier.stopping()
    assert heard(systemd) == ["STOPPING=1"]


def test_a_reload_says_when(systemd: socket.socket) -> None:
    before = time.monotonic_ns() // 1000
    Notifier(systemd.getsockname()).reloading()
    first, second = heard(systemd)
    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_an_abstract_socket_begins_with_an_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0colocation-test-notify")
        listener.settimeout(2)
        Notifier("@colocation-test-notify").ready()
        assert heard(listener) == ["READY=1"]


def test_nobody_listens(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "none"), 1).ready()
    Notifier().ready()


def test_the_environment_is_read_and_emptied(systemd: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "7", "A": "b"}
    notifier = from_environment(environ, pid=7)
    assert notifier.watchdog_seconds == 6
    assert environ == {"A": "b"}


@pytest.mark.parametrize(
    "environ",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "8"}],
)
def test_a_watchdog_that_is_not_ours_is_not_fed(environ: dict[str, str], systemd: socket.socket) -> None:
    notifier = from_environment({**environ, "NOTIFY_SOCKET": systemd.getsockname()}, pid=7)
    notifier.watchdog()
    notifier.ready()
    assert heard(systemd) == ["READY=1"]
