# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Waiting for signals, in a process of its own that is stopped and goes on; and what may fail without ending it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import colocation
from colocation.common import pages, service
from colocation.common.http_server import HttpServer
from colocation.common.metrics import Registry
from colocation.common.notify import Notifier
from colocation.common.status import Status

WAITS = """
from colocation.common.service import block_signals, wait_for_signal
block_signals()
print("waits", flush=True)
for _round in range(600):
    if (received := wait_for_signal(0.1)) is not None:
        print(received.name, flush=True)
        break
"""


def test_a_process_that_was_stopped_goes_on() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(colocation.__file__).parents[1])}
    command = [sys.executable, "-c", WAITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waits\n"
        for _time in range(3):
            waiter.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, waiter.pid, os.WSTOPPED)
            signal.sigtimedwait([signal.SIGUSR2], 0.15)  # longer than it waits, so its time is over when it goes on
            waiter.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, waiter.pid, os.WCONTINUED)
        waiter.send_signal(signal.SIGTERM)
        assert waiter.stdout.readline() == "SIGTERM\n"


LETS_GO = """
import os, signal
from colocation.common.service import SIGNALS, block_signals, wait_for_signal
block_signals()
os.kill(os.getpid(), signal.SIGTERM)
print(wait_for_signal(0.05).name, flush=True)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
signal.sigtimedwait([signal.SIGUSR2], 0.15)
print("lives")
"""


def test_the_alarm_goes_with_the_wait_that_it_was_for() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(colocation.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", LETS_GO], stdout=subprocess.PIPE, text=True, env=environment, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "SIGTERM\nlives\n")


class NotifierDouble(Notifier):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def status(self, status: str) -> None:
        self.told.append(status)


def test_a_status_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = ["one", RuntimeError("dictionary changed size during iteration"), "two", "two"]
    signals = [None, None, None, signal.SIGTERM]

    def status() -> Status:
        found = said.pop(0)
        if isinstance(found, Exception):
            raise found
        return Status("double", "1", found, ())

    monkeypatch.setattr(service, "wait_for_signal", lambda _seconds: signals.pop(0))
    double: Any = SimpleNamespace(status=status, tick=lambda alive: alive())
    notifier = NotifierDouble()
    settings: Any = SimpleNamespace(rejected=None, file="double.yaml")
    running = service._Running(service.Frame("double", settings, double, Registry(), notifier, "127.0.0.1", 0))
    running.until_told_to_stop(running.summary())
    running.page.close()
    assert notifier.told == ["two"]
    assert running.failures.value() == 1


def test_a_page_for_which_no_thread_can_be_had_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_server: HttpServer) -> None:
        raise RuntimeError("can't start new thread")

    double: Any = SimpleNamespace(status=lambda: Status("double", "1", "fine", ()), tick=lambda alive: alive())
    settings: Any = SimpleNamespace(rejected=None, file="double.yaml")
    running = service._Running(service.Frame("double", settings, double, Registry(), Notifier(), "127.0.0.1", 0))
    with monkeypatch.context() as patched:
        patched.setattr(HttpServer, "start", refuse)
        running.tick()
        assert running.summary() == "fine; no status page at 127.0.0.1:0 (can't start new thread)"
    running.tick()
    assert running.summary() == "fine"
    running.page.close()


def test_who_hangs_is_told_from_who_has_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "HUNG_SECONDS", 0.3)
    goes_on = threading.Event()

    def tick(_alive: Any) -> None:
        goes_on.wait(10)

    def answers() -> int:
        assert running.page._server is not None
        with socket.create_connection(("127.0.0.1", running.page._server.port), 5) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
            return int(connection.recv(65536).split()[1])

    double: Any = SimpleNamespace(status=lambda: Status("double", "1", "ill", ("no API",)), tick=tick)
    settings: Any = SimpleNamespace(rejected=None, file="double.yaml")
    running = service._Running(service.Frame("double", settings, double, Registry(), Notifier(), "127.0.0.1", 0))
    running.page.open()
    assert answers() == 200, "its trouble is not one that a new process ends"
    signals = [None, signal.SIGTERM]
    monkeypatch.setattr(service, "wait_for_signal", lambda _seconds: signals.pop(0))
    loop = threading.Thread(target=running.until_told_to_stop, args=("ill",))
    loop.start()
    time.sleep(0.4)
    assert answers() == 503
    running.alive()  # a long round says so in between
    assert answers() == 200
    goes_on.set()
    loop.join()
    running.page.close()
