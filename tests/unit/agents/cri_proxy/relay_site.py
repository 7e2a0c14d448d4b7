# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A relay with its sockets in a directory, and a runtime that is a plain listening socket."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator

from colocation.common.metrics import Registry
from colocation.cri_proxy.calls import Policy
from colocation.cri_proxy.intercept import Intercept
from colocation.cri_proxy.listener import Listener
from colocation.cri_proxy.relay import Relay
from colocation.cri_proxy.trouble import Trouble

LIMIT = 10.0


class Site:
    """What a relay needs, and the relay."""

    def __init__(self, directory: str, policy: Policy | None) -> None:
        self.path = f"{directory}/proxy.sock"
        self.runtime = f"{directory}/runtime.sock"
        self.registry = Registry()
        self.intercept = Intercept(self.registry, Trouble(self.registry), policy)
        self.relay = Relay(Listener(self.path), self.runtime, self.intercept, self.registry)
        self.relay.start()

    def metric(self, line: str) -> bool:
        return f"\n{line}\n" in self.registry.render()


@contextlib.contextmanager
def site(policy: Policy | None) -> Iterator[Site]:
    """One for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="cri-", dir="/tmp") as directory:
        made = Site(directory, policy)
        try:
            yield made
        finally:
            made.relay.stop(0)


def until(what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, f"not within {LIMIT} s: {what}"
        time.sleep(0.005)


def listening(path: str) -> socket.socket:
    """A runtime that accepts, and does what the test does."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(LIMIT)
    made.bind(path)
    made.listen()
    return made


def dialled(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(LIMIT)
    made.connect(path)
    return made


def received(end: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    parts = []
    while size:
        part = end.recv(min(size, 1 << 20))
        assert part, "the other side closed"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
