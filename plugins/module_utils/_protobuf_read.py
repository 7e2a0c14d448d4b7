# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads protobuf messages with the standard library: fields by number, as they lie on the wire.

A module runs under whatever Python Ansible finds on a node, which need not be the one that the agents' libraries were
built for, so what few messages it reads it reads itself. Unknown fields are passed over, as protobuf wants it.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are no message, or half of one."""


def read_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: whole numbers, or the bytes of texts and of messages."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("a field has the number 0")
        if kind == VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(content, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ProtobufError(f"field {number} is of the unknown kind {kind}")
        if at + size > len(content):
            raise ProtobufError(f"field {number} is cut off")
        yield number, content[at : at + size]
        at += size


def messages(content: bytes, wanted: int) -> Iterator[bytes]:
    """The bytes of each field of one number: of a repeated text or message."""
    for number, value in read_fields(content):
        if number == wanted and isinstance(value, bytes):
            yield value


def texts(content: bytes, wanted: int) -> list[str]:
    """A repeated text."""
    return [_text(value) for value in messages(content, wanted)]


def text(content: bytes, wanted: int) -> str:
    """A text; the last one counts, and none is empty."""
    found = texts(content, wanted)
    return found[-1] if found else ""


def number(content: bytes, wanted: int) -> int:
    """A signed whole number of 64 bits, or a truth value; none is 0."""
    found = 0
    for field, value in read_fields(content):
        if field == wanted and isinstance(value, int):
            found = value
    return found - (1 << 64) if found >= 1 << 63 else found


def text_map(content: bytes, wanted: int) -> dict[str, str]:
    """A map of texts."""
    return {text(entry, 1): text(entry, 2) for entry in messages(content, wanted)}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content):
            raise ProtobufError("a number is cut off")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
        shift += 7
        if shift > 63:
            raise ProtobufError("a number has more than 64 bits")
