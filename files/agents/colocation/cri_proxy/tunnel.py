# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An HTTP/2 connection that passes through us: two lanes, and the streams that somebody is interested in.

No socket, clock or thread is here, and no name of any call. For each new stream `interested` is asked, with its
headers. Who `holds` a call gets the whole body of its request before the server sees any of it, and says what the
server gets; others read request and answer in passing. A held request is let go as it came by whatever else happens on
its stream: an early answer, trailers, too many bytes, too long a wait. Where headers can't be read any more, nobody is
asked any more; where frames can't, both lanes become plain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from colocation.cri_proxy.frames import (
    CONTINUATION,
    GOAWAY,
    MOST_WINDOW,
    PREFACE,
    PUSH_PROMISE,
    SETTING_HEADER_TABLE_SIZE,
    SETTING_INITIAL_WINDOW,
    SETTING_MAX_FRAME,
    WINDOW_UPDATE,
    frame,
)
from colocation.cri_proxy.hpack import HeaderReader, Headers
from colocation.cri_proxy.judges import Answers, Requests
from colocation.cri_proxy.lane import Lane, Piece
from colocation.cri_proxy.sender import Sender
from colocation.cri_proxy.streams import Interest, Stream
from colocation.cri_proxy.windows import Window

MOST_HELD = 1 << 20  # of one body
MOST_HELD_IN_ALL = 1 << 23
_NOTHING: frozenset[int] = frozenset((PUSH_PROMISE, CONTINUATION))
_CREDIT = _NOTHING | {WINDOW_UPDATE}

Interested = Callable[[Headers], Interest | None]
Trouble = Callable[[str, Exception], None]
T = TypeVar("T")


class Tunnel:
    """One connection. Write what is in `up.out` to the server and what is in `down.out` to the client."""

    def __init__(self, interested: Interested, trouble: Trouble) -> None:
        self.up = Lane(Requests(self), PREFACE)
        self.down = Lane(Answers(self))
        self.sender = Sender(self.up, self.down, self._settle)
        self.streams: dict[int, Stream] = {}
        self.held: dict[int, Stream] = {}
        self.highest = 0
        self.plain = False
        self.request_headers = HeaderReader()
        self.answer_headers = HeaderReader()
        self._blind = False
        self._announced: deque[dict[int, int]] = deque()
        self._held_bytes = 0
        self._interested = interested
        self._trouble = trouble

    def from_client(self, data: Piece) -> None:
        self.up.feed(data)
        self._credit()

    def ahead(self, data: memoryview) -> int:
        """How much of what comes from the server the client may have before `from_server` looks at it.

        While nothing is held and nothing waits for windows, nothing comes of an answer that the client must get before
        or within it; and of the frames only a WINDOW_UPDATE may have to change, where the client was told too much.
        """
        if self.held or self.sender.waits:
            return 0
        return self.down.ahead(data, _CREDIT if self.sender.owes(self.streams.values()) else _NOTHING)

    def from_server(self, data: Piece, ahead: int = 0) -> None:
        """`ahead` is how much of it was written to the client already."""
        self.down.feed(data, ahead)
        self._credit()  # what waited behind a request's trailers may have gone on, and is held

    def tick(self) -> None:
        """To be called now and then while something is held: what was held at the last call too is let go."""
        for stream in list(self.held.values()):
            if stream.waited:
                self.let_go(stream, "it did not come to its end")
            stream.waited = True

    def go_away(self) -> None:
        """Tell the client to begin no more calls here."""
        if not self.plain:
            self.down.insert(frame(GOAWAY, 0, 0, MOST_WINDOW.to_bytes(4, "big") + bytes(4)))

    def closed(self) -> None:
        """The connection is over."""
        for stream in list(self.streams.values()):
            self.lose(stream, "the connection ended", stream.holding)
        self.streams.clear()
        self.held.clear()

    # What the two lanes' judges have in common

    def read(self, reader: HeaderReader, block: bytes) -> Headers:
        """A header block; nothing once one could not be read."""
        if self._blind:
            return ()
        try:
            return reader.read(block)
        except ValueError as problem:
            self._blind = True
            self._trouble("headers", problem)
            self._forget_all()
            return ()

    def open(self, number: int, headers: Headers, ended: bool) -> None:
        """A request begins."""
        self.highest = number
        self.streams[number] = stream = Stream(number, Window(self.sender.initial))
        if headers:
            stream.interest = self._guarded(self._interested, None, headers)
        if stream.interest is not None and ended:
            self._tell(stream.interest.let_go, "it has no body")
        elif stream.interest is not None and stream.interest.holds:
            stream.holding = True
            self.held[number] = stream
        elif stream.interest is not None:
            stream.reading = True
        stream.request_done = ended

    def hold(self, stream: Stream, content: bytes, paid: int, last: bool) -> None:
        """A part of a held request has come."""
        stream.body.append(content)
        stream.size += len(content)
        stream.paid += paid
        self._held_bytes += len(content)
        if stream.size > MOST_HELD or self._held_bytes > MOST_HELD_IN_ALL:
            self.let_go(stream, "it is too large", last)
        elif last:
            body = self._unhold(stream)
            interest = stream.interest
            made = self._guarded(interest.requested, body, body) if interest else body
            self._send_held(stream, made, True)

    def let_go(self, stream: Stream, why: str, last: bool = False) -> None:
        """Send what is held as it came."""
        body = self._unhold(stream)
        if stream.interest is not None:
            self._tell(stream.interest.let_go, why)
        self._send_held(stream, body, last)

    def show(self, stream: Stream, content: bytes, last: bool) -> None:
        """A part of a request that is read in passing."""
        stream.body.append(content)
        stream.size += len(content)
        if stream.interest is None or stream.size > MOST_HELD:
            stream.reading = False
            stream.body.clear()
            if stream.interest is not None:
                self._tell(stream.interest.let_go, "it is too large")
        elif last:
            stream.reading = False
            self._guarded(stream.interest.requested, b"", b"".join(stream.body))
            stream.body.clear()
        if last:
            self.requested(stream)

    def send(self, stream: Stream, content: bytes, paid: int, last: bool) -> None:
        """Content that did not just pass goes to the server."""
        self.sender.enqueue(stream, content, paid, last)
        if last:
            self.requested(stream)

    def requested(self, stream: Stream) -> None:
        """The client has sent all of its request."""
        stream.request_done = True
        self._settle(stream)

    def answered(self, stream: Stream, trailers: Headers) -> None:
        """The server has sent all of its answer."""
        stream.answer_done = True
        interest, stream.interest = stream.interest, None
        if interest is not None:
            body = None if stream.answer is None else b"".join(stream.answer)
            self._tell(interest.answered, trailers, body)
        self._settle(stream)

    def lose(self, stream: Stream, why: str, certain: bool) -> None:
        """Nobody will see the end of that call."""
        interest, stream.interest = stream.interest, None
        if interest is not None:
            self._tell(interest.lost, why, certain)

    def reset(self, stream: Stream, why: str, certain: bool) -> None:
        """One side ended the stream at once."""
        certain = certain or stream.holding
        self._unhold(stream)
        self.sender.drop(stream)
        self.lose(stream, why, certain)
        self.streams.pop(stream.number, None)

    def announced(self, changes: dict[int, int]) -> None:
        """The server's SETTINGS, which come true when the client agrees."""
        self.request_headers.allow(changes.get(SETTING_HEADER_TABLE_SIZE, 0))
        self._announced.append(changes)

    def agreed(self) -> None:
        """The client took the oldest of them."""
        changes = self._announced.popleft() if self._announced else {}
        self.sender.max_frame = changes.get(SETTING_MAX_FRAME, self.sender.max_frame)
        if SETTING_INITIAL_WINDOW in changes:
            self.sender.resize(changes[SETTING_INITIAL_WINDOW], self.streams.values())

    def refused_above(self, number: int) -> None:
        """The server's GOAWAY: it will not look at later streams."""
        for stream in list(self.streams.values()):
            if stream.number > number:
                if stream.holding:
                    self.let_go(stream, "the server takes no more calls")
                self.lose(stream, "the server takes no more calls", True)

    def fail(self, problem: Exception) -> None:
        """What passes is not understood: it passes all the same, from here on."""
        if self.plain:
            return
        self.plain = True
        self._trouble("frames", problem)
        self._forget_all()
        self.sender.give_up()
        self.up.go_plain()
        self.down.go_plain()

    def _credit(self) -> None:
        for stream in list(self.held.values()):
            self.sender.credit(stream)

    def _forget_all(self) -> None:
        for stream in list(self.streams.values()):
            if stream.holding:
                self.let_go(stream, "the connection can't be read")
            self.lose(stream, "the connection can't be read", False)

    def _unhold(self, stream: Stream) -> bytes:
        body = b"".join(stream.body)
        stream.body.clear()
        if stream.holding:
            stream.holding = False
            self._held_bytes -= stream.size
            self.held.pop(stream.number, None)
        return body

    def _send_held(self, stream: Stream, body: bytes, last: bool) -> None:
        paid, stream.paid = stream.paid, 0
        self.send(stream, body, paid, last)

    def _settle(self, stream: Stream) -> None:
        if stream.request_done and stream.answer_done and not stream.queue:
            self.streams.pop(stream.number, None)

    def _tell(self, whom: Callable[..., None], *what: object) -> None:
        try:
            whom(*what)
        except Exception as problem:
            self._trouble("policy", problem)

    def _guarded(self, whom: Callable[..., T], otherwise: T, *what: object) -> T:
        try:
            return whom(*what)
        except Exception as problem:
            self._trouble("policy", problem)
            return otherwise
