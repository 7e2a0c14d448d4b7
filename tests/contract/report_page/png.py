# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads the pixels of a PNG as browsers write their screenshots: 8 bits a channel, RGB or RGBA, not interlaced."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}
Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """Rows of pixels, `channels` bytes each."""

    width: int
    height: int
    channels: int
    rows: tuple[bytes, ...]

    def at(self, x: int, y: int) -> Colour:
        """The colour of a pixel."""
        red, green, blue = self.rows[y][x * self.channels : x * self.channels + 3]
        return red, green, blue

    def count(self, x: int, y: int, width: int, height: int, colour: Colour, tolerance: int = 24) -> int:
        """How many pixels of a rectangle have about that colour."""
        return sum(
            all(abs(a - b) <= tolerance for a, b in zip(self.at(column, row), colour, strict=True))
            for row in range(max(0, y), min(self.height, y + height))
            for column in range(max(0, x), min(self.width, x + width))
        )


def read(data: bytes) -> Picture:
    """The pixels; a ValueError for what is no such PNG."""
    if not data.startswith(SIGNATURE):
        raise ValueError("this is no PNG")
    at, header, packed = len(SIGNATURE), b"", bytearray()
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, colours, dummy, dummy, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or colours not in CHANNELS or interlaced:
        raise ValueError(f"a PNG of {depth} bits, kind {colours}, interlaced {interlaced} is not read here")
    channels = CHANNELS[colours]
    return Picture(width, height, channels, tuple(_rows(zlib.decompress(bytes(packed)), width * channels, channels)))


def _rows(raw: bytes, length: int, channels: int) -> list[bytes]:
    """Undo the filter of each row."""
    rows: list[bytes] = []
    above = bytes(length)
    for start in range(0, len(raw), length + 1):
        how, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for i in range(length if how else 0):
            left = row[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            row[i] = (row[i] + _guess(how, left, above[i], corner)) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def _guess(how: int, left: int, up: int, corner: int) -> int:
    if how == 1:
        return left
    if how == 2:
        return up
    if how == 3:
        return (left + up) // 2
    if how != 4:
        raise ValueError(f"no filter of PNG has the number {how}")
    estimate = left + up - corner
    return min((left, up, corner), key=lambda one: abs(estimate - one))
