# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The web server with real connections, the hostile ones too."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from colocation.common import http_server
from colocation.common.http_exchange import Answer, Request
from colocation.common.http_server import HttpServer


def respond(request: Request) -> Answer:
    if request.path == "/broken":
        raise RuntimeError("this page is broken")
    return Answer(200, "x" * 4_000_000 if request.path == "/large" else f"it is {request.path}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "SEND_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "PLACES", 3)
    made = HttpServer("127.0.0.1", 0, respond)
    made.start()
    yield made
    made.close()


def said(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection((server.address, server.port), 5) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def page(server: HttpServer) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/page", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_a_page(server: HttpServer) -> None:
    assert page(server) == "it is /page"
    head, _end, body = said(server, b"HEAD /page HTTP/1.1\r\nHost: localhost\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Length: 11" in head
    assert body == b""


def test_a_page_that_breaks_is_an_answer_too(server: HttpServer) -> None:
    assert said(server, b"GET /broken HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert page(server) == "it is /page"


def test_a_request_may_come_in_pieces(server: HttpServer) -> None:
    with socket.create_connection((server.address, server.port), 5) as connection:
        for piece in (b"GET /a HT", b"TP/1.1\r\n", b"\r", b"\n"):
            connection.sendall(piece)
            time.sleep(0.05)
        assert connection.recv(65536).endswith(b"it is /a")


def test_a_client_that_trickles_is_ended_by_the_deadline(server: HttpServer) -> None:
    began = time.monotonic()
    with socket.create_connection((server.address, server.port), 5) as connection:
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 4:
                connection.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() - began < 3


def test_silent_clients_take_all_places_for_a_moment_only(server: HttpServer) -> None:
    with contextlib.ExitStack() as open_connections:
        silent = [
            open_connections.enter_context(socket.create_connection((server.address, server.port), 5))
            for _n in range(3)
        ]
        time.sleep(0.2)
        assert said(server, b"").startswith(b"HTTP/1.1 503 ")
        assert all(connection.recv(100).startswith(b"HTTP/1.1 408 ") for connection in silent)
        deadline = time.monotonic() + 10
        while said(server, b"GET /page HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503 "):  # a thread is about to end
            assert time.monotonic() < deadline
        assert page(server) == "it is /page"


def test_a_client_that_does_not_read_holds_nothing_up(server: HttpServer) -> None:
    with socket.create_connection((server.address, server.port), 5) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        time.sleep(0.8)
        deadline = time.monotonic() + 3
        while any(thread.name == "http-client" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_too_much_is_refused(server: HttpServer) -> None:
    assert said(server, b"GET /" + b"a" * 8188).startswith(b"HTTP/1.1 431 ")


def test_a_closed_server_is_gone() -> None:
    made = HttpServer("127.0.0.1", 0, respond)
    made.start()
    began = time.monotonic()
    made.close()
    assert time.monotonic() - began < 2
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", made.port), 1)
