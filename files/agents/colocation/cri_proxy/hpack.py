# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads the header blocks of one direction of an HTTP/2 connection (HPACK, RFC 7541).

Every block must be read, in its order, for a decoder that leaves an entry of the table out misreads all that follow.
Most blocks of a kubelet and its runtime repeat; a block that did not change the table is remembered until another one
does. The table's size follows what the encoder says in the blocks, up to what its peer's SETTINGS allow.
"""

from __future__ import annotations

from colocation.cri_proxy.huffman import Huffman

Header = tuple[bytes, bytes]
Headers = tuple[Header, ...]

_NAMES = (
    b":authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status "
    b"accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow "
    b"authorization cache-control content-disposition content-encoding content-language content-length "
    b"content-location content-range content-type cookie date etag expect expires from host if-match "
    b"if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards "
    b"proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie "
    b"strict-transport-security transfer-encoding user-agent vary via www-authenticate"
).split()
_VALUES = {
    2: b"GET", 3: b"POST", 4: b"/", 5: b"/index.html", 6: b"http", 7: b"https", 8: b"200", 9: b"204", 10: b"206",
    11: b"304", 12: b"400", 13: b"404", 14: b"500", 16: b"gzip, deflate",
}  # fmt: skip
_STATIC: tuple[Header, ...] = tuple((name, _VALUES.get(place, b"")) for place, name in enumerate(_NAMES, 1))
_OVERHEAD = 32  # what an entry counts beside its name and value
DEFAULT_SIZE = 4096
_MOST_REMEMBERED = 64
_LONGEST_REMEMBERED = 512


class HeaderReader:
    """Decodes blocks; a ValueError is the end of it, for the table is unknown then."""

    def __init__(self) -> None:
        self._table: list[Header] = []  # oldest first
        self._size = 0
        self._limit = DEFAULT_SIZE
        self._allowed = DEFAULT_SIZE
        self._huffman = Huffman()
        self._known: dict[bytes, Headers] = {}

    def allow(self, size: int) -> None:
        """A peer's SETTINGS_HEADER_TABLE_SIZE. A smaller one comes true when the encoder says so."""
        self._allowed = max(self._allowed, size)

    def read(self, block: bytes) -> Headers:
        """Names and values of the next block."""
        known = self._known.get(block)
        return self._read(block) if known is None else known

    def _read(self, block: bytes) -> Headers:
        at, size = 0, len(block)
        changed = False
        found: list[Header] = []
        while at < size:
            first = block[at]
            if first & 0x80:  # an entry of the tables
                index, at = _number(block, at, 0x7F)
                found.append(self._entry(index))
            elif first & 0xE0 == 0x20:
                wanted, at = _number(block, at, 0x1F)
                self._resize(wanted, bool(found))
                changed = True
            else:
                header, at = self._literal(block, at, 0x3F if first & 0x40 else 0x0F)
                found.append(header)
                if first & 0x40:
                    self._add(header)
                    changed = True
        headers = tuple(found)
        if changed or len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        if not changed and size <= _LONGEST_REMEMBERED:
            self._known[block] = headers
        return headers

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[Header, int]:
        index, at = _number(block, at, mask)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = self._text(block, at)
        value, at = self._text(block, at)
        return (name, value), at

    def _text(self, block: bytes, at: int) -> tuple[bytes, int]:
        if at >= len(block):
            raise ValueError("a header is cut off")
        coded = block[at] & 0x80
        size, at = _number(block, at, 0x7F)
        end = at + size
        if end > len(block):
            raise ValueError("a header is cut off")
        content = block[at:end]
        return self._huffman.decode(content) if coded else content, end

    def _entry(self, index: int) -> Header:
        if index > len(_STATIC):
            index -= len(_STATIC)
            if index <= len(self._table):
                return self._table[-index]
        elif index:
            return _STATIC[index - 1]
        raise ValueError("a header's index is of no table")

    def _add(self, header: Header) -> None:
        self._table.append(header)
        self._size += _cost(header)
        self._evict()

    def _resize(self, wanted: int, late: bool) -> None:
        if late or wanted > self._allowed:
            raise ValueError(f"the header table may not get {wanted} bytes here")
        self._limit = wanted
        self._evict()

    def _evict(self) -> None:
        gone = 0
        while self._size > self._limit:
            self._size -= _cost(self._table[gone])
            gone += 1
        del self._table[:gone]


def _cost(header: Header) -> int:
    return len(header[0]) + len(header[1]) + _OVERHEAD


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and where it ends."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    shift = 0
    while True:
        if at >= len(block) or shift > 28:
            raise ValueError("a number of a header is cut off or too large")
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
