# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads HTTP/2 header blocks (RFC 7541) with the standard library: enough to learn how a gRPC call ended.

Header values of gRPC are printable ASCII, and so is all that is decoded here; a Huffman code for anything else is an
error. The table that both sides keep is kept, since a decoder that leaves one entry out misreads all that follow.
"""

from __future__ import annotations

from collections.abc import Iterator

# The symbols of the static Huffman code by their number of bits. It is canonical: the codes follow from this alone.
_SYMBOLS = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
    19: "\\",
}
_STATIC_NAMES = (
    ":authority", ":method", ":method", ":path", ":path", ":scheme", ":scheme", ":status", ":status", ":status",
    ":status", ":status", ":status", ":status", "accept-charset", "accept-encoding", "accept-language",
    "accept-ranges", "accept", "access-control-allow-origin", "age", "allow", "authorization", "cache-control",
    "content-disposition", "content-encoding", "content-language", "content-length", "content-location",
    "content-range", "content-type", "cookie", "date", "etag", "expect", "expires", "from", "host", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified", "link", "location",
    "max-forwards", "proxy-authenticate", "proxy-authorization", "range", "referer", "refresh", "retry-after",
    "server", "set-cookie", "strict-transport-security", "transfer-encoding", "user-agent", "vary", "via",
    "www-authenticate",
)  # fmt: skip
_STATIC_VALUES = {
    2: "GET", 3: "POST", 4: "/", 5: "/index.html", 6: "http", 7: "https", 8: "200", 9: "204", 10: "206", 11: "304",
    12: "400", 13: "404", 14: "500", 16: "gzip, deflate",
}  # fmt: skip
_STATIC = [(name, _STATIC_VALUES.get(place, "")) for place, name in enumerate(_STATIC_NAMES, 1)]
_OVERHEAD = 32  # what an entry counts beside its name and value
_DEFAULT_SIZE = 4096


class HpackError(ValueError):
    """The block is no header block, or holds what no gRPC header does."""


def _codes() -> dict[tuple[int, int], str]:
    """Symbols by number of bits and code."""
    found = {}
    code = bits = 0
    for length, symbols in _SYMBOLS.items():
        code <<= length - bits
        bits = length
        for symbol in symbols:
            found[bits, code] = symbol
            code += 1
    return found


class HeaderReader:
    """Decodes the blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str]] = []  # newest first
        self._limit = _DEFAULT_SIZE
        self._codes = _codes()

    def read(self, block: bytes) -> list[tuple[str, str]]:
        """Names and values of one block."""
        at = 0
        found = []
        while at < len(block):
            first = block[at]
            if first & 0x80:  # an entry of the tables
                index, at = _number(block, at, 7)
                found.append(self._entry(index))
            elif first & 0xE0 == 0x20:  # the table's new size
                self._limit, at = _number(block, at, 5)
                self._evict()
            else:
                kept = bool(first & 0x40)
                index, at = _number(block, at, 6 if kept else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = self._text(block, at)
                value, at = self._text(block, at)
                found.append((name, value))
                if kept:
                    self._table.insert(0, (name, value))
                    self._evict()
        return found

    def _entry(self, index: int) -> tuple[str, str]:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        place = index - len(_STATIC) - 1
        if not 0 <= place < len(self._table):
            raise HpackError(f"there is no header with the index {index}")
        return self._table[place]

    def _evict(self) -> None:
        size = sum(len(name) + len(value) + _OVERHEAD for name, value in self._table)
        while self._table and size > self._limit:
            name, value = self._table.pop()
            size -= len(name) + len(value) + _OVERHEAD

    def _text(self, block: bytes, at: int) -> tuple[str, int]:
        if at >= len(block):
            raise HpackError("a header is cut off")
        coded = bool(block[at] & 0x80)
        size, at = _number(block, at, 7)
        content = block[at : at + size]
        if len(content) < size:
            raise HpackError("a header is cut off")
        if coded:
            return "".join(self._symbols(content)), at + size
        try:
            return content.decode("ascii"), at + size
        except UnicodeDecodeError:
            raise HpackError("a header is no ASCII") from None

    def _symbols(self, content: bytes) -> Iterator[str]:
        longest = max(_SYMBOLS)
        bits = code = 0
        for byte in content:
            for place in range(7, -1, -1):
                code = code << 1 | byte >> place & 1
                bits += 1
                symbol = self._codes.get((bits, code))
                if symbol is not None:
                    yield symbol
                    bits = code = 0
                elif bits > longest:
                    raise HpackError("a header holds what is no printable ASCII")
        if bits > 7 or code != (1 << bits) - 1:
            raise HpackError("a header's Huffman code is cut off")


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        if at >= len(block) or shift > 28:
            raise HpackError("a number is cut off or too large")
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
