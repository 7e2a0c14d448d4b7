# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""HTTP/2 frames (RFC 9113): their kinds and flags, and how to make and read one.

Sizes are checked where something is read from them; all else is the peers' affair.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20
SETTING_HEADER_TABLE_SIZE, SETTING_INITIAL_WINDOW, SETTING_MAX_FRAME = 1, 4, 5
REFUSED_STREAM = 0x7
DEFAULT_WINDOW = 65_535
DEFAULT_MAX_FRAME = 16_384
MOST_WINDOW = 2**31 - 1
HEAD = 9
HEAD_FORMAT = struct.Struct(">HBBBL")  # size in two parts, kind, flags, stream


class Malformed(ValueError):
    """These bytes are no HTTP/2, or none that anybody sends."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEAD_FORMAT.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def window_update(stream: int, amount: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, amount.to_bytes(4, "big"))


def settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """The identifiers and values of a SETTINGS frame."""
    if len(payload) % 6:
        raise Malformed("SETTINGS are cut off")
    return struct.iter_unpack(">HL", payload)


def content_of(payload: bytes, flags: int, before: int = 0) -> bytes:
    """A frame's payload without its padding and what stands `before` its content."""
    start, end = before, len(payload)
    if flags & PADDED:
        if not payload:
            raise Malformed("padding is missing")
        start, end = before + 1, end - payload[0]
    if start > end:
        raise Malformed("there is more padding than frame")
    return payload[start:end] if (start, end) != (0, len(payload)) else payload
