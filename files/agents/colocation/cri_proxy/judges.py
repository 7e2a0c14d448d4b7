# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which frames of a tunnel pass, in each direction, and what they mean for its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colocation.cri_proxy.frames import (
    ACK,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MOST_WINDOW,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING_HEADER_TABLE_SIZE,
    SETTINGS,
    WINDOW_UPDATE,
    Malformed,
    content_of,
    settings,
)
from colocation.cri_proxy.lane import Stall, Verdict, Way

if TYPE_CHECKING:
    from colocation.cri_proxy.tunnel import Tunnel

MOST_ANSWERED = 1 << 20  # of an answer that is read in passing


class Requests:
    """From the client to the server."""

    judged = frozenset((HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE))
    counts = True

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def failed(self, problem: Exception) -> None:
        self._tunnel.fail(problem)

    def data(self, number: int, flags: int, size: int) -> Way:
        tunnel = self._tunnel
        stream = tunnel.streams.get(number)
        if stream is None:
            return Way.PASS if tunnel.sender.may_pass_unknown(size) else Way.TAKE
        if stream.holding or not tunnel.sender.may_pass(stream, size):
            return Way.TAKE
        if stream.reading:
            return Way.COPY
        if flags & END_STREAM:
            tunnel.requested(stream)
        return Way.PASS

    def data_ended(self, number: int, flags: int, payload: bytes, way: Way) -> None:
        tunnel = self._tunnel
        content = content_of(payload, flags)
        last = bool(flags & END_STREAM)
        stream = tunnel.streams.get(number)
        if stream is None:  # it ended in the meantime, or long ago
            if way is Way.TAKE:
                tunnel.sender.refund(len(payload))
        elif way is Way.COPY:
            tunnel.show(stream, content, last)
        elif stream.holding:
            tunnel.hold(stream, content, len(payload), last)
        else:
            tunnel.send(stream, content, len(payload), last)
            if stream.reading:
                tunnel.show(stream, content, last)

    def whole(self, kind: int, flags: int, number: int, payload: bytes) -> Verdict:
        tunnel = self._tunnel
        if kind == HEADERS:
            return self._headers(number, flags, payload)
        if kind == RST_STREAM and number in tunnel.streams:
            tunnel.reset(tunnel.streams[number], "the client gave up", False)
        elif kind == SETTINGS and flags & ACK:
            tunnel.agreed()
        elif kind == SETTINGS:
            for setting, value in settings(payload):
                if setting == SETTING_HEADER_TABLE_SIZE:
                    tunnel.answer_headers.allow(value)
        elif kind == PUSH_PROMISE:
            raise Malformed("a client pushes")
        return None

    def _headers(self, number: int, flags: int, block: bytes) -> Verdict:
        tunnel = self._tunnel
        stream = tunnel.streams.get(number)
        if stream is not None and stream.holding:
            tunnel.let_go(stream, "it has trailers")
        if stream is not None and stream.queue:
            tunnel.sender.stall_for(stream)
            return Stall.STALL
        headers = tunnel.read(tunnel.request_headers, block)
        ended = bool(flags & END_STREAM)
        if stream is not None:
            if ended:
                tunnel.requested(stream)
        elif number > tunnel.highest:
            tunnel.open(number, headers, ended)
        return None


class Answers:
    """From the server to the client."""

    judged = frozenset((HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, GOAWAY, WINDOW_UPDATE))
    counts = False

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def failed(self, problem: Exception) -> None:
        self._tunnel.fail(problem)

    def data(self, number: int, flags: int, _size: int) -> Way:
        stream = self._tunnel.streams.get(number)
        if stream is None:
            return Way.PASS
        if stream.interest is not None:
            return Way.COPY
        if flags & END_STREAM:
            self._tunnel.answered(stream, ())
        return Way.PASS

    def data_ended(self, number: int, flags: int, payload: bytes, _way: Way) -> None:
        stream = self._tunnel.streams.get(number)
        if stream is None:
            return
        if stream.answer is not None:
            stream.answer.append(content_of(payload, flags))
            stream.answer_size += len(payload)
            if stream.answer_size > MOST_ANSWERED:
                stream.answer = None
        if flags & END_STREAM:
            self._tunnel.answered(stream, ())

    def whole(self, kind: int, flags: int, number: int, payload: bytes) -> Verdict:
        tunnel = self._tunnel
        stream = tunnel.streams.get(number)
        if kind == HEADERS:
            headers = tunnel.read(tunnel.answer_headers, payload)
            if stream is not None and stream.holding:
                tunnel.let_go(stream, "it was answered early")
            if stream is not None and flags & END_STREAM:
                tunnel.answered(stream, headers)
        elif kind == WINDOW_UPDATE:
            amount = int.from_bytes(payload, "big") & MOST_WINDOW
            if amount and (stream is not None or not number):
                return tunnel.sender.granted(amount, stream)
        elif kind == RST_STREAM and stream is not None:
            code = int.from_bytes(payload, "big")
            tunnel.reset(stream, f"the server reset the stream with error {code}", code == REFUSED_STREAM)
        elif kind == SETTINGS and not flags & ACK:
            tunnel.announced(dict(settings(payload)))
        elif kind == GOAWAY:
            tunnel.refused_above(int.from_bytes(payload[:4], "big") & MOST_WINDOW)
        elif kind == PUSH_PROMISE:
            tunnel.read(tunnel.answer_headers, payload)
        return None
