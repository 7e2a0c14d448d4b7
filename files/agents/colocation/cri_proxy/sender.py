# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Sends to the server what did not simply pass, as the server's windows allow; see `windows` for the bookkeeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colocation.cri_proxy.frames import (
    DATA,
    DEFAULT_MAX_FRAME,
    DEFAULT_WINDOW,
    END_STREAM,
    Malformed,
    frame,
    window_update,
)
from colocation.cri_proxy.lane import Lane, Verdict
from colocation.cri_proxy.streams import Stream
from colocation.cri_proxy.windows import Window

MOST_QUEUED = 1 << 26  # no client that keeps to its windows comes near


class Sender:
    """The client's DATA on its way to the server, and the credit for it on its way back."""

    def __init__(self, up: Lane, down: Lane, sent: Callable[[Stream], None]) -> None:
        self.window = Window(DEFAULT_WINDOW)
        self.initial = DEFAULT_WINDOW  # of new streams
        self.max_frame = DEFAULT_MAX_FRAME
        self._up = up
        self._down = down
        self._sent = sent
        self._waiting: dict[int, Stream] = {}
        self._queued = 0
        self._stalled: Stream | None = None

    def may_pass(self, stream: Stream, size: int) -> bool:
        """Whether a frame may go through; it is booked then."""
        window = stream.window
        if stream.queue or (size and (size > self.window.size or size > window.size)):
            return False
        window.size -= size
        self.window.size -= size
        return True

    def may_pass_unknown(self, size: int) -> bool:
        """The same for a stream that ended, which counts for the connection all the same."""
        if size > self.window.size:
            return False
        self.window.size -= size
        return True

    @property
    def waits(self) -> bool:
        """Something is queued until the server allows it."""
        return bool(self._waiting)

    def owes(self, streams: Iterable[Stream]) -> bool:
        """Whether the client was told of more credit than the server gave."""
        return bool(self.window.debt) or any(stream.window.debt for stream in streams)

    def credit(self, stream: Stream) -> None:
        """Give back what the client paid for held bytes, so that it can send the rest of them."""
        if stream.paid:
            self._down.insert(window_update(stream.number, stream.paid) + window_update(0, stream.paid))
            stream.paid = 0

    def refund(self, amount: int) -> None:
        """Bytes that the client paid for will never reach the server."""
        told = self.window.owe(-amount)
        if told:
            self._down.insert(window_update(0, told))

    def enqueue(self, stream: Stream, content: bytes, paid: int, last: bool) -> None:
        """Send that on a stream, where the client paid so much."""
        more = len(content) - paid
        told = self.window.owe(more)
        if told:
            self._down.insert(window_update(0, told))
        told = 0 if last else stream.window.owe(more)
        if told:
            self._down.insert(window_update(stream.number, told))
        if not content and not last:
            return
        self._queued += len(content)
        if self._queued > MOST_QUEUED:
            raise Malformed("the client sends more than it may")
        stream.queue.append(memoryview(content))
        stream.queue_ends = last
        self._waiting[stream.number] = stream
        self._drain(stream)

    def stall_for(self, stream: Stream) -> None:
        """Trailers must wait for what is queued before them, and later headers for them."""
        self._stalled = stream

    def drop(self, stream: Stream) -> None:
        """The stream was reset: nothing more of it is sent."""
        unsent = sum(len(content) for content in stream.queue)
        stream.queue.clear()
        self._queued -= unsent
        amount, stream.paid = unsent + stream.paid, 0
        if amount:
            self.refund(amount)
        self._emptied(stream)

    def granted(self, amount: int, stream: Stream | None) -> Verdict:
        """The server's WINDOW_UPDATE, for a stream or the connection: what of it the client gets."""
        window = stream.window if stream else self.window
        if not (window.debt or self._waiting):
            window.size += amount
            return None
        told = window.granted(amount)
        self._drain_all()
        if told == amount:
            return None
        return window_update(stream.number if stream else 0, told) if told else b""

    def resize(self, initial: int, streams: Iterable[Stream]) -> None:
        """Streams get another window to begin with, those that are open too."""
        for stream in streams:
            stream.window.size += initial - self.initial
        self.initial = initial
        self._drain_all()

    def give_up(self) -> None:
        """Send all that is queued, whatever the windows say."""
        self._stalled = None
        for stream in list(self._waiting.values()):
            self.window.size = stream.window.size = self._queued
            self._drain(stream)

    def _drain_all(self) -> None:
        for stream in list(self._waiting.values()):
            self._drain(stream)

    def _drain(self, stream: Stream) -> None:
        queue, window = stream.queue, stream.window
        while queue:
            content = queue[0]
            size = max(min(len(content), self.window.size, window.size, self.max_frame), 0)  # windows may be negative
            if size == 0 < len(content):
                return
            if size == len(content):
                queue.popleft()
            else:
                queue[0] = content[size:]
            ends = END_STREAM if stream.queue_ends and not queue else 0
            self._up.insert(frame(DATA, ends, stream.number, bytes(content[:size])))
            window.size -= size
            self.window.size -= size
            self._queued -= size
        self._emptied(stream)

    def _emptied(self, stream: Stream) -> None:
        self._waiting.pop(stream.number, None)
        if self._stalled is stream:
            self._stalled = None
            self._up.resume()
        self._sent(stream)
