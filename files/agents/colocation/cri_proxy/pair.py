# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A connection of the kubelet and ours to the runtime, and what is on its way between them.

A side that can't be written to keeps what is for it, and the other side is not read from until that is gone: nothing
grows. With a tunnel the bytes pass through it, without one they pass as they are.
"""

from __future__ import annotations

import select
import socket
from collections import deque

from colocation.cri_proxy.lane import Piece
from colocation.cri_proxy.tunnel import Tunnel

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
_MOST_PIECES = 512  # in one call; the system takes 1024


class Side:
    """A socket, and what waits to be written to it."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.number = made.fileno()
        self.waiting: deque[Piece] = deque()
        self.mask = READ  # what epoll was told

    def write(self, pieces: list[Piece]) -> None:
        """Write what can be written, and keep the rest."""
        if not self.waiting:
            pieces = self._send(pieces)
        if pieces:
            self.waiting.extend(bytes(piece) for piece in pieces)

    def write_waiting(self) -> None:
        pieces = [self.waiting.popleft() for _turn in range(min(len(self.waiting), _MOST_PIECES))]
        self.waiting.extendleft(reversed(self._send(pieces)))

    def _send(self, pieces: list[Piece]) -> list[Piece]:
        """Write once; what is left."""
        try:
            sent = self.socket.send(pieces[0]) if len(pieces) == 1 else self.socket.sendmsg(pieces[:_MOST_PIECES])
        except BlockingIOError:
            return pieces
        for place, piece in enumerate(pieces):
            if sent < len(piece):
                return [piece[sent:], *pieces[place + 1 :]]
            sent -= len(piece)
        return []


class Pair:
    """Both sides of a connection."""

    def __init__(self, client: socket.socket, server: socket.socket, tunnel: Tunnel | None) -> None:
        self.client = Side(client)
        self.server = Side(server)
        self.tunnel = tunnel
        self.ended: Side | None = None  # the side from which nothing more comes

    def read(self, side: Side, buffer: memoryview) -> bool:
        """Let pass what came from a side; False at its end."""
        try:
            size = side.socket.recv_into(buffer)
        except BlockingIOError:
            return True
        if not size:
            return False
        data = buffer[:size]
        if self.tunnel is None:
            self.other(side).write([data])
            return True
        if side is self.client:
            self.tunnel.from_client(data)
        else:
            ahead = self.tunnel.ahead(data)
            if ahead:
                self.client.write([data[:ahead]])
            self.tunnel.from_server(data, ahead)
        self.write_out()
        return True

    def write_out(self) -> None:
        """Write what the tunnel has for either side."""
        tunnel = self.tunnel
        if tunnel is not None:
            if tunnel.up.out:
                pieces, tunnel.up.out = tunnel.up.out, []
                self.server.write(pieces)
            if tunnel.down.out:
                pieces, tunnel.down.out = tunnel.down.out, []
                self.client.write(pieces)

    def wanted(self, side: Side) -> int:
        """What to wait for on a side."""
        other = self.server if side is self.client else self.client
        if not (side.waiting or other.waiting or self.ended or (self.tunnel is not None and self.tunnel.up.stalled)):
            return READ
        read = not (other.waiting or self.ended is side)
        if read and side is self.client and self.tunnel is not None:
            read = not self.tunnel.up.stalled
        return (READ if read else 0) | (WRITE if side.waiting else 0)

    def other(self, side: Side) -> Side:
        return self.server if side is self.client else self.client

    @property
    def kind(self) -> str:
        return "plain" if self.tunnel is None else "placed"

    @property
    def idle(self) -> bool:
        """No call is under way, as far as can be seen."""
        return not (self.client.waiting or self.server.waiting or (self.tunnel is not None and self.tunnel.streams))

    def close(self) -> None:
        self.client.socket.close()
        self.server.socket.close()
        if self.tunnel is not None:
            self.tunnel.closed()
