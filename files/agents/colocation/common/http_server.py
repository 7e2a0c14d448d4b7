# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent's small web server: a thread a connection, few at a time, each with a deadline.

A slow or silent client holds one of the places for a few seconds and nothing else; where none is free, others are told
so at once. The service itself never waits for a client.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable

from colocation.common.http_exchange import MOST_HEAD, Answer, HostRule, Request, complete, encode, parse
from colocation.common.journal import Log

PLACES = 16
HEAD_SECONDS = 3.0
SEND_SECONDS = 10.0
log = Log("http")


class HttpServer:
    """Answers on an address until it is closed; `respond` is called from several threads."""

    def __init__(self, address: str, port: int, respond: Callable[[Request], Answer]) -> None:
        self._respond = respond
        self._rule = HostRule(ipaddress.ip_address(address).is_loopback)
        self._places = threading.BoundedSemaphore(PLACES)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=64)
        self.address: str = address
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take no more connections; those under way end by their deadline."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()
        if self._thread.is_alive():
            self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(0.1)  # too many open files: better later than never; a closed listener ends above
                if _is_shut(self._listener):
                    return
                continue
            if not self._places.acquire(blocking=False):
                _refuse(connection)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="http-client", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._exchange(connection)
        except OSError:
            pass  # the client went away
        finally:
            self._places.release()

    def _exchange(self, connection: socket.socket) -> None:
        head = _read_head(connection, time.monotonic() + HEAD_SECONDS)
        asked = Answer(408, "The request did not arrive in time.\n") if head is None else parse(head, self._rule)
        reply = encode(self._answer(asked), asked.head_only) if isinstance(asked, Request) else encode(asked)
        _send(connection, reply, time.monotonic() + SEND_SECONDS)

    def _answer(self, request: Request) -> Answer:
        try:
            return self._respond(request)
        except Exception:
            log.exception("a page could not be made", path=request.path)
            return Answer(500, "This page could not be made; the agent's log says why.\n")


def _is_shut(listener: socket.socket) -> bool:
    try:
        return listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0
    except OSError:
        return True


def _read_head(connection: socket.socket, deadline: float) -> bytes | None:
    """The bytes up to the empty line; None when they don't come in time, or the client ends early."""
    head = b""
    while not complete(head) and len(head) <= MOST_HEAD:
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        connection.settimeout(left)
        try:
            chunk = connection.recv(MOST_HEAD)
        except TimeoutError:
            return None
        if not chunk:
            return None
        head += chunk
    return head


def _send(connection: socket.socket, content: bytes, deadline: float) -> None:
    connection.settimeout(max(deadline - time.monotonic(), 0.01))  # sendall counts it for the whole
    connection.sendall(content)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _refuse(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.setblocking(False)
        connection.send(encode(Answer(503, "Too many connections.\n")))
