# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender's web server: one thread, many connections, none of which waits for another.

Every answer comes from memory, so one thread answers in the order of arrival; a client that is slow to send or to read
costs a place and its buffer until its deadline. kube-scheduler keeps its connections, so they are kept.
"""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.common.http_exchange import HostRule
from colocation.common.journal import Log
from colocation.scheduler.http_stream import CONTINUE, HttpStream, Refusal, Request, encode

PLACES = 128
ROOM = 32 << 20  # bytes of all connections: bodies that come and answers that wait; one more answer may be on top
IDLE_SECONDS = 300.0  # kube-scheduler closes after 90; who closes first may cut a request off
EXCHANGE_SECONDS = 10.0  # from a request's first byte to the answer's last
DRAIN_SECONDS = 2.0  # after a refusal, so that the client sees it before the end
CHUNK = 256 << 10
GAVE_UP = 499  # as nginx counts who did not wait for the answer
log = Log("extender")


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: int
    body: str
    content_type: str = "application/json"


Respond = Callable[[Request], Answer]


class ExtenderServer:
    """Answers on an address until it is closed; `respond` is called from one thread."""

    def __init__(self, address: str, port: int, respond: Respond, refused: Callable[[int], None]) -> None:
        self._respond = respond
        self._refused = refused  # told the status of each refusal
        self._rule = HostRule(ipaddress.ip_address(address).is_loopback)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=128)
        self._listener.setblocking(False)
        self.address = address
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._clients: dict[int, _Client] = {}
        self._held = 0
        self._swept = 0.0
        self._thread = threading.Thread(target=self._run, name="extender", daemon=True)

    @property
    def connections(self) -> int:
        return len(self._clients)

    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        with contextlib.suppress(OSError):
            self._waker.send(b".")
        if self._thread.is_alive():
            self._thread.join(5)
        for end in (self._listener, self._wake, self._waker):
            end.close()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception:
            log.exception("the extender's server ended")
        finally:
            for client in list(self._clients.values()):
                self._drop(client)
            self._selector.close()

    def _turn(self) -> bool:
        for key, _events in self._selector.select(1.0):
            if key.fileobj is self._wake:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif (client := self._clients.get(key.fd)) is not None:
                self._serve(client)
        self._sweep(time.monotonic())
        return True

    def _accept(self) -> None:
        try:
            connection, _peer = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            time.sleep(0.05)  # too many open files: one of ours ends by its deadline
            return
        connection.setblocking(False)
        if len(self._clients) >= PLACES:
            self._refused(503)
            with connection, contextlib.suppress(OSError):
                connection.send(encode(503, "too many connections\n", False, "text/plain"))
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(connection, HttpStream(self._rule, self._room), time.monotonic() + EXCHANGE_SECONDS)
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _room(self, length: int) -> bool:
        if self._held + length > ROOM:
            return False
        self._held += length
        return True

    def _serve(self, client: _Client) -> None:
        try:
            if client.out:
                self._send(client)
            else:
                data = client.connection.recv(CHUNK)
                if not data:
                    self._drop(client)
                    return
                if client.ending:
                    return
                if not client.stream.begun:
                    client.deadline = time.monotonic() + EXCHANGE_SECONDS
                client.stream.feed(data)
            while not client.out and not client.ending and self._go_on(client):
                pass  # also for a client that does not wait for answers
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)

    def _go_on(self, client: _Client) -> bool:
        """Answer the request that is whole; False if there is none."""
        found = client.stream.next()
        if found is None:
            if client.stream.go_on:
                client.stream.go_on = False
                client.connection.send(CONTINUE)
            return False
        self._give_back(client)
        if isinstance(found, Refusal):
            self._end_with(client, found)
            return False
        if _gone(client.connection):  # nobody waits any more: to book would be wrong
            self._refused(GAVE_UP)
            self._drop(client)
            return False
        answer = self._answer(found)
        client.ending = not found.keep_alive
        client.out = encode(answer.status, answer.body, found.keep_alive, answer.content_type)
        self._send(client)
        return True

    def _answer(self, request: Request) -> Answer:
        try:
            return self._respond(request)
        except Exception:
            log.exception("a request could not be answered", path=request.path)
            return Answer(500, "this could not be answered; the extender's log says why\n", "text/plain")

    def _send(self, client: _Client) -> None:
        with contextlib.suppress(BlockingIOError):
            sent = client.connection.send(client.out)
            client.out = client.out[sent:]
        self._held += len(client.out) - client.waiting
        client.waiting = len(client.out)
        if client.out:
            self._selector.modify(client.connection, selectors.EVENT_WRITE, client)
            return
        self._selector.modify(client.connection, selectors.EVENT_READ, client)
        now = time.monotonic()
        if client.ending:
            client.connection.shutdown(socket.SHUT_WR)  # what still comes is read and thrown away, for a short time
            client.deadline = now + DRAIN_SECONDS
            return
        client.deadline = now + (EXCHANGE_SECONDS if client.stream.begun else IDLE_SECONDS)

    def _end_with(self, client: _Client, refusal: Refusal) -> None:
        self._refused(refusal.status)
        client.ending = True
        client.out = encode(refusal.status, refusal.why + "\n", False, "text/plain")
        self._send(client)

    def _sweep(self, now: float) -> None:
        """End what took too long."""
        if now - self._swept < 0.5:
            return
        self._swept = now
        for client in [client for client in self._clients.values() if client.deadline < now]:
            late = client.stream.begun and not client.ending and not client.out
            try:
                if late:
                    self._give_back(client)
                    self._end_with(client, Refusal(408, "the request did not arrive in time"))
                else:
                    self._drop(client)
            except OSError:
                self._drop(client)

    def _give_back(self, client: _Client) -> None:
        self._held -= client.stream.held
        client.stream.held = 0

    def _drop(self, client: _Client) -> None:
        self._give_back(client)
        self._held -= client.waiting
        client.waiting = 0
        self._clients.pop(client.connection.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.connection)
        client.connection.close()


def _gone(connection: socket.socket) -> bool:
    """Whether the other side has hung up."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


@dataclass(slots=True)
class _Client:
    """A connection, and how far it is."""

    connection: socket.socket
    stream: HttpStream
    deadline: float
    out: bytes = b""
    waiting: int = 0  # bytes of it that are held
    ending: bool = False
