# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A lane lets the frames of one direction of an HTTP/2 connection pass, one after the other: bytes in, bytes out.

It knows where frames begin and end, and nothing of what they mean; a judge says for each whether it passes. DATA flows
through in whatever pieces it comes; other frames of interest are judged whole, a header block with its CONTINUATIONs,
so nothing of ours ever falls inside of one. What goes wrong makes the lane plain: from the frame on that it could not
judge it lets all bytes pass as they are.
"""

from __future__ import annotations

import enum
from typing import Protocol

from colocation.cri_proxy.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEAD,
    HEAD_FORMAT,
    HEADERS,
    MOST_WINDOW,
    PADDED,
    PUSH_PROMISE,
    RST_STREAM,
    WINDOW_UPDATE,
    Malformed,
    content_of,
)

LONGEST_BLOCK = 1 << 18  # of headers, or of any frame that is judged whole
_SIZES = {RST_STREAM: 4, WINDOW_UPDATE: 4}
_NONE = (b"", 0, 0)

Piece = bytes | memoryview


class Way(enum.Enum):
    """What becomes of a DATA frame."""

    PASS = enum.auto()
    COPY = enum.auto()  # it passes, and the judge gets its payload
    TAKE = enum.auto()  # only the judge gets it


class Stall(enum.Enum):
    """The verdict on a frame that must wait, with all that follows."""

    STALL = enum.auto()


Verdict = bytes | Stall | None  # None lets a frame pass, bytes take its place


class Judge(Protocol):
    """Who says what passes."""

    judged: frozenset[int]  # the kinds of frames that it wants to see whole
    counts: bool  # each DATA frame matters to it, also one that passes and does not end its stream

    def data(self, stream: int, flags: int, size: int) -> Way:
        """A DATA frame begins."""

    def data_ended(self, stream: int, flags: int, payload: bytes, way: Way) -> None:
        """A frame that was copied or taken is complete."""

    def whole(self, kind: int, flags: int, stream: int, payload: bytes) -> Verdict:
        """Another frame; a header block comes as if it were one, without padding and priority."""

    def failed(self, problem: Exception) -> None:
        """This lane understands no more."""


class Lane:
    """One direction.

    What it puts `out` are views into what it was fed: they must be written, or copied, before that memory is used anew.
    """

    def __init__(self, judge: Judge, preface: bytes = b"") -> None:
        self.out: list[Piece] = []
        self.stalled = False
        self._judge = judge
        self._judged = judge.judged
        self._preface = preface
        self._rest = b""  # a frame that is to be judged whole, and is not all there
        self._left = 0  # of a payload that flows through
        self._way = Way.PASS
        self._taken: list[bytes] = []
        self._current = _NONE  # head, stream and flags of the frame that is being copied or taken
        self._between: list[bytes] = []  # ours, for the next end of a frame
        self._view = memoryview(b"")  # what is being fed
        self._begin = self._end = 0  # the part of it that passes and is not in `out` yet
        self._ahead = 0  # how much of it went on before it came here
        self._feeding = False
        self._plain = False

    def ahead(self, data: memoryview, but: frozenset[int]) -> int:
        """How much of what comes next would surely pass, if every frame passes that is of none of these kinds.

        Whole frames, and whatever there is of DATA: a frame that is to be judged must not have gone on in part.
        """
        if self._rest or self._between or self._way is Way.TAKE:
            return 0
        size, at = len(data), self._left
        if self._plain:
            return size
        while size - at >= HEAD:
            high, low, kind, flags, _stream = HEAD_FORMAT.unpack_from(data, at)
            end = at + HEAD + (high << 8 | low)
            if kind != DATA and (end > size or kind in but or (kind == HEADERS and not flags & END_HEADERS)):
                break
            at = end
        return min(at, size)

    def feed(self, data: Piece, ahead: int = 0) -> None:
        """Bytes that came, some of which may have gone on already; what else may go on is in `out` then."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if self.stalled:
            self._rest = bytes(data)
            return
        self._view = view = memoryview(data)
        self._begin = self._end = at = 0
        self._ahead = ahead
        self._feeding = True
        if not self._plain:
            at = self._judge_frames(view)
        if self._plain:
            self._let_all_pass(at)
        else:
            self._rest = bytes(view[at:])
        self._feeding = False
        self._flush()
        if self._between:
            self._put_between()

    def insert(self, made: bytes) -> None:
        """A frame of ours, at the next place where one may stand."""
        self._between.append(made)
        if not self._feeding:
            self._put_between()

    def resume(self) -> None:
        """What stalled may be judged again."""
        if self.stalled:
            self.stalled = False
            self.feed(b"")

    def go_plain(self) -> None:
        """Judge nothing any more."""
        if self._plain:
            return
        self._plain, self.stalled, self._preface = True, False, b""
        if self._way is Way.TAKE and self._current is not _NONE:  # its beginning goes back, its end will follow
            self._flush()
            self.out += [self._current[0], *self._taken]
        self._way, self._taken, self._current = Way.PASS, [], _NONE
        if not self._feeding:
            self.feed(b"")

    def _judge_frames(self, view: memoryview) -> int:
        """Frame by frame; how far it came."""
        at = 0
        try:
            if self._preface:
                at = self._check_preface(view)
            while not (self._plain or self.stalled or self._preface):
                now = self._flow(at) if self._left else self._next(view, at)
                if now == at:
                    break
                at = now
                if self._between:
                    self._put_between()
        except Exception as problem:  # whatever it is, what follows must reach the other side
            self._judge.failed(problem)
        return at

    def _check_preface(self, view: memoryview) -> int:
        size = len(self._preface)
        if view[:size] != self._preface[: len(view)]:
            raise Malformed("this is no HTTP/2")
        if len(view) < size:
            return 0
        self._preface = b""
        self._pass(0, size)
        return size

    def _next(self, view: memoryview, at: int) -> int:
        """The frame that begins here: where what was done of it ends."""
        here = len(view) - at
        if here < HEAD:
            return at
        high, low, kind, flags, stream = HEAD_FORMAT.unpack_from(view, at)
        size: int = high << 8 | low
        stream &= MOST_WINDOW
        if kind in self._judged:
            return self._judge_whole(at, kind, flags, stream, size)
        if kind == CONTINUATION:
            raise Malformed("a CONTINUATION continues nothing")
        self._way = way = self._judge.data(stream, flags, size) if kind == DATA else Way.PASS
        if way is Way.PASS and here >= HEAD + size:
            end = at + HEAD + size
            if kind == DATA and not (self._judge.counts or flags & END_STREAM):
                end = _repeated(view, at, end)
            self._pass(at, end)
            return end
        self._left = size
        if way is not Way.PASS:
            self._current = (bytes(view[at : at + HEAD]), stream, flags)
        if way is not Way.TAKE:
            self._pass(at, at + HEAD)
        return self._flow(at + HEAD)

    def _flow(self, at: int) -> int:
        """As much of a payload as is there."""
        end = min(at + self._left, len(self._view))
        self._left -= end - at
        if self._way is not Way.TAKE:
            self._pass(at, end)
        if self._way is not Way.PASS:
            self._taken.append(bytes(self._view[at:end]))
            if not self._left:
                payload = b"".join(self._taken)
                (head, stream, flags), way = self._current, self._way
                self._taken, self._current, self._way = [], _NONE, Way.PASS
                try:
                    self._judge.data_ended(stream, flags, payload, way)
                except Exception as problem:
                    if way is Way.TAKE:
                        self._flush()
                        self.out += [head, payload]
                    self._judge.failed(problem)
        return end

    def _judge_whole(self, at: int, kind: int, flags: int, stream: int, size: int) -> int:
        view = self._view
        end = at + HEAD + size
        if size > LONGEST_BLOCK or _SIZES.get(kind, size) != size:
            raise Malformed(f"a frame of the kind {kind} has {size} bytes")
        if len(view) < end:
            return at
        payload = bytes(view[at + HEAD : end])
        if kind in (HEADERS, PUSH_PROMISE):
            payload, end = _block(view, payload, end, kind, flags, stream)
            if not end:
                return at
        verdict = self._judge.whole(kind, flags, stream, payload)
        if kind == HEADERS and self._between:
            self._put_between()  # what trailers let go comes before them; but what SETTINGS allow comes after
        if verdict is None:
            self._pass(at, end)
        elif isinstance(verdict, Stall):
            self.stalled = True
            return at
        elif verdict:
            self._flush()
            self.out.append(verdict)
        return end

    def _pass(self, begin: int, end: int) -> None:
        if begin != self._end:
            self._flush()
            self._begin = begin
        self._end = end

    def _flush(self) -> None:
        if self._begin != self._end:
            begin = max(self._begin, self._ahead)
            if begin < self._end:
                self.out.append(self._view[begin : self._end])
            self._begin = self._end

    def _put_between(self) -> None:
        if not (self._left or self._preface):
            self._flush()
            self.out += self._between
            self._between.clear()

    def _let_all_pass(self, at: int) -> None:
        if self._left:
            at = self._flow(at)
        if not self._left:
            if self._between:
                self._put_between()
            self._pass(at, len(self._view))


def _repeated(view: memoryview, at: int, end: int) -> int:
    """Where the frames end that follow the one from `at` to `end` and have the same head, as in a large message."""
    head, size = view[at : at + HEAD], end - at
    while len(view) >= end + size and view[end : end + HEAD] == head:
        end += size
    return end


def _block(view: memoryview, payload: bytes, end: int, kind: int, flags: int, stream: int) -> tuple[bytes, int]:
    """The header block that begins with a frame's payload, and where it ends; 0 where it is not all there."""
    if kind == PUSH_PROMISE or flags & (PADDED | HAS_PRIORITY):
        payload = content_of(payload, flags, 4 if kind == PUSH_PROMISE else 5 if flags & HAS_PRIORITY else 0)
    if flags & END_HEADERS:
        return payload, end
    more, end = _continued(view, end, stream)
    return payload + more, end


def _continued(view: memoryview, at: int, stream: int) -> tuple[bytes, int]:
    """The CONTINUATIONs from a place on, and where they end; 0 where they are not all there."""
    parts = []
    total = 0
    while len(view) - at >= HEAD:
        high, low, kind, flags, number = HEAD_FORMAT.unpack_from(view, at)
        end = at + HEAD + (high << 8 | low)
        total += end - at
        if kind != CONTINUATION or number & MOST_WINDOW != stream or total > LONGEST_BLOCK:
            raise Malformed("a header block is not continued as it must be")
        if len(view) < end:
            break
        parts.append(bytes(view[at + HEAD : end]))
        at = end
        if flags & END_HEADERS:
            return b"".join(parts), at
    return b"", 0
