# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender's server over real sockets: connections that are kept, and clients that mean no good."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from colocation.scheduler import server as server_module
from colocation.scheduler.http_stream import MOST_BODY, Request
from colocation.scheduler.server import Answer, ExtenderServer

LARGE = "x" * (8 << 20)


RELEASED = threading.Event()  # lets the answer to /slow go
ANSWERED: list[str] = []


def respond(request: Request) -> Answer:
    ANSWERED.append(request.path)
    if request.path == "/slow":
        RELEASED.wait(30)
    if request.path == "/fail":
        raise RuntimeError("as asked")
    if request.path == "/large":
        return Answer(200, LARGE, "text/plain")
    return Answer(200, f"{request.method} {request.path} {len(request.body)}", "text/plain")


@pytest.fixture
def refused() -> list[int]:
    return []


@pytest.fixture
def server(refused: list[int]) -> Iterator[ExtenderServer]:
    made = ExtenderServer("127.0.0.1", 0, respond, refused.append)
    RELEASED.clear()
    ANSWERED.clear()
    made.start()
    yield made
    assert made.alive()
    made.close()
    assert not made.alive()


def ask(connection: http.client.HTTPConnection, path: str, body: bytes | None = None) -> tuple[int, str]:
    connection.request("POST" if body is not None else "GET", path, body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture
def client(server: ExtenderServer) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    yield made
    made.close()


def raw(server: ExtenderServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 10)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def everything(connection: socket.socket) -> bytes:
    found = b""
    while chunk := connection.recv(1 << 16):
        found += chunk
    return found


def test_a_connection_is_kept(server: ExtenderServer, client: http.client.HTTPConnection) -> None:
    assert ask(client, "/a", b"1234") == (200, "POST /a 4")
    first = client.sock
    assert ask(client, "/b") == (200, "GET /b 0")
    assert client.sock is first
    assert server.connections == 1


def test_an_error_is_a_500_and_the_connection_lives(client: http.client.HTTPConnection) -> None:
    assert ask(client, "/fail")[0] == 500
    assert ask(client, "/b")[0] == 200


def test_requests_that_are_not_waited_for_are_answered_in_order(server: ExtenderServer) -> None:
    with raw(server) as connection:
        last = b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\n"
        connection.sendall(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % number for number in range(3000)) + last)
        answers = everything(connection)
    assert [line for line in answers.split(b"\r\n") if line.startswith(b"GET")][0].startswith(b"GET /0 0")
    assert answers.count(b"HTTP/1.1 200") == 3001
    assert answers.endswith(b"GET /last 0")


def test_ten_megabytes_are_refused_and_others_served(
    server: ExtenderServer, client: http.client.HTTPConnection, refused: list[int]
) -> None:
    with raw(server) as connection:
        connection.sendall(b"POST /prioritize HTTP/1.1\r\nContent-Length: 10485760\r\n\r\n")
        sending = threading.Thread(target=send_quietly, args=(connection, b"x" * 10485760))
        sending.start()
        assert ask(client, "/a")[0] == 200
        assert everything(connection).startswith(b"HTTP/1.1 413 ")
        sending.join(10)
    assert refused == [413]


def send_quietly(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        pass  # it was told not to


def test_all_bodies_together_stay_within_bounds(server: ExtenderServer, refused: list[int]) -> None:
    connections = [raw(server) for _number in range(12)]
    for connection in connections:
        connection.sendall(b"POST /a HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MOST_BODY)
    until(lambda: refused.count(503) == 4)
    with raw(server) as small:
        small.sendall(b"GET /a HTTP/1.0\r\n\r\n")
        assert everything(small).startswith(b"HTTP/1.1 200")
    for connection in connections:
        connection.close()
    until(lambda: server.connections == 0)
    assert server._held == 0


def time_is_up(server: ExtenderServer, who: Callable[[server_module._Client], object]) -> None:
    """For the one client of which that holds, as soon as it does."""
    until(lambda: any(who(client) for client in list(server._clients.values())))
    (late,) = [client for client in server._clients.values() if who(client)]
    late.deadline = 0.0


def test_a_slow_client_is_told_in_time_and_holds_nobody_up(
    server: ExtenderServer, client: http.client.HTTPConnection, refused: list[int]
) -> None:
    with raw(server) as slow:
        slow.sendall(b"POST /a HTTP/1.1\r\nContent-Length: 100\r\n\r\nonly a part")
        assert ask(client, "/a")[0] == 200
        time_is_up(server, lambda one: one.stream.begun)
        assert everything(slow).startswith(b"HTTP/1.1 408 ")
    assert refused == [408]
    assert ask(client, "/a")[0] == 200


def test_a_client_that_does_not_read_holds_nobody_up(
    server: ExtenderServer, client: http.client.HTTPConnection
) -> None:
    with raw(server) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert ask(client, "/a")[0] == 200
        time_is_up(server, lambda one: len(one.out) > 1 << 20)
        until(lambda: server.connections == 1)
    assert ask(client, "/a")[0] == 200


def test_who_gave_up_is_counted_and_not_answered(server: ExtenderServer, refused: list[int]) -> None:
    slow = raw(server)
    slow.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
    until(lambda: "/slow" in ANSWERED)
    with raw(server) as impatient:
        impatient.sendall(b"POST /asked HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    RELEASED.set()
    until(lambda: refused == [499])
    slow.close()
    until(lambda: server.connections == 0)
    assert "/asked" not in ANSWERED


def test_answers_that_nobody_reads_are_bounded_too(server: ExtenderServer, refused: list[int]) -> None:
    connections = [raw(server) for _number in range(12)]
    for number, connection in enumerate(connections, 1):
        connection.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        until(lambda: sum(bool(one.out) for one in list(server._clients.values())) + refused.count(503) == number)  # noqa: B023
    assert refused.count(503) > 0
    assert server._held < server_module.ROOM + len(LARGE)
    for connection in connections:
        connection.close()
    until(lambda: server.connections == 0)
    assert server._held == 0
    with raw(server) as small:
        small.sendall(b"GET /a HTTP/1.0\r\n\r\n")
        assert everything(small).startswith(b"HTTP/1.1 200")


def test_a_large_answer_arrives_whole(client: http.client.HTTPConnection) -> None:
    assert ask(client, "/large") == (200, LARGE)
    assert ask(client, "/a")[0] == 200


def test_one_connection_too_many_is_told_so(server: ExtenderServer, refused: list[int]) -> None:
    connections = [raw(server) for _number in range(server_module.PLACES)]
    until(lambda: server.connections == server_module.PLACES)
    with raw(server) as late:
        assert everything(late).startswith(b"HTTP/1.1 503 ")
    assert refused == [503]
    for connection in connections:
        connection.close()
    until(lambda: server.connections == 0)


def test_who_waits_to_be_told_to_go_on_is_told(server: ExtenderServer) -> None:
    with raw(server) as connection:
        connection.sendall(
            b"POST /a HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"ok")
        assert everything(connection).endswith(b"POST /a 2")
