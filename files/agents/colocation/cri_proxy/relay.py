# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The relay's loop: accepts the kubelet's connections, dials the runtime for each, and moves bytes.

One thread does all of it, with epoll. Measured beside asyncio it has half the latency, and needs neither uvloop nor the
5 MiB that asyncio takes. Nothing that happens on one connection, an exception included, reaches another one.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.cri_proxy.intercept import Intercept
from colocation.cri_proxy.listener import Listener
from colocation.cri_proxy.pair import Pair, Side
from colocation.cri_proxy.tunnel import Tunnel

BUFFER = 1 << 17
TICK_SECONDS = 1.0
END_TICK_SECONDS = 0.05
QUIET_TICKS = 4  # without a call, as a moment: the kubelet makes a container by one call and starts it by the next
GRACE_SECONDS = 10.0  # a container that was made and whose start is cut short may never be started by the kubelet
LAST_SECONDS = 3.0  # of these: nobody new comes in, and who is here only ends
GARBAGE = 20_000  # objects between two looks for cycles; only a connection's end makes any
SWITCH_SECONDS = 0.0005  # with Python's 5 ms a call took 5.6 ms beside a thread that computes, with this 0.12
log = Log("cri_proxy")


class Metrics:
    """What the relay counts."""

    def __init__(self, registry: Registry) -> None:
        self.accepted = registry.counter("colocation_cri_connections_total", "Connections that were accepted.")
        self.open = registry.gauge("colocation_cri_connections", "Connections that are open.", ("kind",))
        self.unreachable = registry.counter(
            "colocation_cri_runtime_unreachable_total", "Connections that were closed because the runtime took none."
        )


@dataclass(frozen=True, slots=True)
class Load:
    """What passes now."""

    connections: int
    plain: int  # of these without a look at what passes
    calls: int


class Relay:
    """Between `listener` and the runtime's socket, from `start` to `stop`."""

    def __init__(self, listener: Listener, runtime: str, intercept: Intercept, registry: Registry) -> None:
        self.runtime = runtime
        self._listener = listener
        self._intercept = intercept
        self._metrics = Metrics(registry)
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._buffer = memoryview(bytearray(BUFFER))
        self._pairs: dict[int, Pair] = {}  # by the number of either side
        self._reachable = True
        self._accepting = True
        self._next_tick = 0.0
        self._end: float | None = None  # when it ends, calls or not
        self._last = 0.0  # when it turns callers away at the latest, once it is to end
        self._quiet = 0  # ticks without a call since then
        self._closed = False
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._epoll.register(listener.socket, select.EPOLLIN)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Begin; from now on this process's other threads, and Python's own housekeeping, are to hold no call up."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE)
        self._thread.start()

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """End in a moment without a call. If there is none for so long, let calls end for the last seconds of it.

        Until then all goes on: a single call, such as the stop of a pod that takes its time, keeps out no other.
        """
        self._ask(lambda: self._begin_to_end(grace))
        self._thread.join(grace + 5)

    def responds(self, seconds: float) -> bool:
        """Whether the loop still turns."""
        answered = threading.Event()
        self._ask(answered.set)
        return answered.wait(seconds)

    def load(self) -> Load:
        """What passes now; from any thread."""
        pairs = set(self._pairs.copy().values())
        tunnels = [pair.tunnel for pair in pairs if pair.tunnel is not None]
        return Load(len(pairs), len(pairs) - len(tunnels), sum(len(tunnel.streams) for tunnel in tunnels))

    def _ask(self, what: Callable[[], None]) -> None:
        self._asked.put(what)
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:
            pass  # it has ended

    def _run(self) -> None:
        while not self._is_over():
            for number, mask in self._epoll.poll(self._timeout()):
                self._handle(number, mask)
            if self._next_tick and time.monotonic() >= self._next_tick:
                try:
                    self._tick()
                except Exception as problem:
                    self._intercept.trouble.note("relay", problem)
                    self._next_tick = time.monotonic() + TICK_SECONDS
        for pair in set(self._pairs.values()):
            self._close(pair)
        self._epoll.close()
        os.close(self._wake)

    def _is_over(self) -> bool:
        return self._end is not None and ((self._closed and not self._pairs) or time.monotonic() >= self._end)

    def _timeout(self) -> float | None:
        """Wait for ever where nothing has to be looked at from time to time."""
        if not self._next_tick:
            return None
        return max(self._next_tick - time.monotonic(), 0)

    def _handle(self, number: int, mask: int) -> None:
        pair = self._pairs.get(number)
        try:
            if pair is not None:
                self._move(pair, pair.client if number == pair.client.number else pair.server, mask)
            elif number == self._wake:
                os.eventfd_read(self._wake)
                while not self._asked.empty():
                    self._asked.get()()
            elif number == self._listener.socket.fileno():
                self._accept()
        except Exception as problem:
            if pair is None or not isinstance(problem, OSError):  # else one side has gone
                self._intercept.trouble.note("relay", problem)
            if pair is not None:
                self._close(pair)

    def _move(self, pair: Pair, side: Side, mask: int) -> None:
        if mask & select.EPOLLOUT:
            side.write_waiting()
        if mask & ~select.EPOLLOUT and side.mask & select.EPOLLIN and not pair.read(side, self._buffer):
            pair.ended = side
        if pair.ended is not None and not pair.other(pair.ended).waiting:
            self._close(pair)
            return
        if pair.tunnel is not None and pair.tunnel.held and not self._next_tick:
            self._next_tick = time.monotonic() + TICK_SECONDS
        self._listen_to(pair)

    def _listen_to(self, pair: Pair) -> None:
        """Tell epoll what is wanted now; a side of which nothing is wanted would wake us for its end."""
        for side in (pair.client, pair.server):
            wanted = pair.wanted(side)
            if wanted == side.mask:
                continue
            if not wanted:
                self._epoll.unregister(side.number)
            elif not side.mask:
                self._epoll.register(side.number, wanted)
            else:
                self._epoll.modify(side.number, wanted)
            side.mask = wanted

    def _accept(self) -> None:
        try:
            client, _address = self._listener.socket.accept()
        except BlockingIOError:
            return
        except OSError as problem:  # no more files, as a rule
            log.error("can't accept a connection", error=problem)
            self._epoll.unregister(self._listener.socket)
            self._accepting = False
            self._next_tick = self._next_tick or time.monotonic() + TICK_SECONDS
            return
        self._metrics.accepted.add()
        server = self._dial()
        if server is None:
            client.close()
            return
        client.setblocking(False)
        intercept = self._intercept
        tunnel = None if intercept.policy is None else Tunnel(intercept.interested, intercept.trouble.note)
        pair = Pair(client, server, tunnel)
        self._pairs[pair.client.number] = self._pairs[pair.server.number] = pair
        self._metrics.open.add(1, kind=pair.kind)
        try:
            for side in (pair.client, pair.server):
                self._epoll.register(side.number, side.mask)
        except OSError:
            self._close(pair)
            raise

    def _dial(self) -> socket.socket | None:
        """A connection to the runtime, if it takes one."""
        server = None
        try:
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            server.connect(self.runtime)
        except OSError as problem:  # nobody listens there, or there are no more files
            if server is not None:
                server.close()
            self._metrics.unreachable.add()
            if self._reachable:
                log.warning(
                    "the runtime can't be reached; its callers are turned away", runtime=self.runtime, why=problem
                )
            self._reachable = False
            return None
        if not self._reachable:
            log.info("the runtime is back", runtime=self.runtime)
            self._reachable = True
        return server

    def _close(self, pair: Pair) -> None:
        for side in (pair.client, pair.server):
            del self._pairs[side.number]
        self._metrics.open.add(-1, kind=pair.kind)
        pair.close()

    def _tick(self) -> None:
        if self._end is not None and not self._closed:
            self._quiet = self._quiet + 1 if all(pair.idle for pair in self._pairs.values()) else 0
            if self._quiet >= QUIET_TICKS or not self._pairs or time.monotonic() >= self._last:
                self._turn_away()
        pairs = set(self._pairs.values())
        for pair in pairs:
            try:
                if pair.tunnel is not None and pair.tunnel.held:
                    pair.tunnel.tick()
                    pair.write_out()
                    self._listen_to(pair)
                if self._closed and pair.idle:
                    self._close(pair)
            except Exception as problem:
                if not isinstance(problem, OSError):
                    self._intercept.trouble.note("relay", problem)
                self._close(pair)
        if not self._accepting and not self._closed:
            self._epoll.register(self._listener.socket, select.EPOLLIN)
            self._accepting = True
        held = any(pair.tunnel is not None and pair.tunnel.held for pair in pairs)
        wait = TICK_SECONDS if self._end is None else END_TICK_SECONDS
        self._next_tick = time.monotonic() + wait if held or self._end is not None else 0.0

    def _begin_to_end(self, grace: float) -> None:
        if self._end is not None:
            return
        now = time.monotonic()
        self._end, self._last, self._next_tick = now + grace, now + max(grace - LAST_SECONDS, 0), now

    def _turn_away(self) -> None:
        self._closed = True
        if self._accepting:
            self._epoll.unregister(self._listener.socket)
        self._listener.close()
        for pair in set(self._pairs.values()):
            try:
                if pair.tunnel is None:
                    self._close(pair)
                else:
                    pair.tunnel.go_away()
                    pair.write_out()
                    self._listen_to(pair)
            except OSError:
                self._close(pair)
