# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_gate import (
    Look,
    NotWell,
    ask_health,
    wait,
)

WELL = Look(0, "active", "running", False, "7", 0, "success", 200, "ok")
STARTING = Look(0, "activating", "start", True, "7", 0, "success")
LOOP = Look(0, "activating", "auto-restart", False, "0", 1, "exit-code")
MUTE = replace(WELL, health=503, said="mock.com/gpu: not\n watched")


class Scripted:
    """One look after the other, the last for ever; looking takes no time, sleeping does."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def look(self) -> Look:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return replace(look, now=self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, timeout: float = 10, settle: float = 2) -> float:
        return wait(self.look, self.sleep, timeout, settle)


def test_well_counts_from_its_beginning_and_has_to_last() -> None:
    script = Scripted(STARTING, STARTING, WELL)
    assert script.wait() == 0.5
    assert script.now == 2.5


def test_without_settling_one_look_is_enough() -> None:
    script = Scripted(WELL)
    assert (script.wait(settle=0), script.now) == (0.0, 0.0)


@pytest.mark.parametrize(
    "disturbance",
    [replace(WELL, pid="8", crashes=1), MUTE, STARTING, replace(WELL, active="reloading")],
)
def test_a_break_begins_the_time_anew(disturbance: Look) -> None:
    script = Scripted(WELL, WELL, disturbance, replace(WELL, pid="8", crashes=disturbance.crashes))
    assert script.wait() >= 0.5
    assert script.now >= 2.5


@pytest.mark.parametrize(
    ("looks", "words", "within"),
    [
        ([replace(LOOP, active="failed", result="watchdog")], "systemd gave it up .watchdog.", 0.0),
        ([LOOP, replace(LOOP, crashes=3), replace(LOOP, crashes=4)], r"ended 3 times \(exit-code\)", 1.0),
        ([replace(WELL, crashes=9), replace(LOOP, crashes=12)], r"ended 3 times \(exit-code\)", 1.0),
        ([STARTING], r"10 s were not enough: it is activating \(start\)", 10.0),
        ([MUTE], "10 s were not enough: /healthz answers 503: mock.com/gpu: not watched", 10.0),
        ([replace(WELL, health=0, said="refused")], "/healthz does not answer: refused", 10.0),
        ([replace(WELL, active="inactive", sub="dead")], r"it is inactive \(dead\)", 10.0),
    ],
)
def test_an_ill_agent_gets_its_reason(looks: list[Look], words: str, within: float) -> None:
    script = Scripted(*looks)
    with pytest.raises(NotWell, match=words):
        script.wait()
    assert script.now <= within


def test_an_agent_that_is_well_in_the_last_moment_may_settle() -> None:
    script = Scripted(*[STARTING] * 39, WELL)
    assert script.wait() == 9.75
    flapping = Scripted(*[STARTING] * 39, *[WELL, MUTE] * 20)
    with pytest.raises(NotWell):
        flapping.wait()


def test_crashes_from_before_the_first_look_are_past() -> None:
    fell = replace(WELL, crashes=9)
    assert Scripted(fell).wait() == 0.0
    assert Scripted(fell, replace(fell, pid="8", crashes=11)).wait() == 0.25


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/healthz" else 404)
        self.end_headers()
        self.wfile.write(b"a problem\n")

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_asked(port: int) -> None:
    assert ask_health(f"http://127.0.0.1:{port}/healthz") == (503, "a problem\n")


def test_no_page_is_no_answer() -> None:
    status, why = ask_health("http://127.0.0.1:1/healthz")
    assert status == 0
    assert "refused" in why
