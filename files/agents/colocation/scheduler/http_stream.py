# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The server's side of one HTTP/1.1 connection that is kept alive, without I/O: bytes in, requests or refusals out.

For what kube-scheduler sends: a head, and a body whose length is said before. The body's room is asked for when the
head is read, so that what is too large is refused before it arrives, and all connections together stay within bounds.
After a refusal nothing on the connection can be understood any more, and it ends.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from colocation.common.http_exchange import HostRule

MOST_HEAD = 16 << 10
MOST_BODY = 4 << 20  # 15,000 names of nodes are 1 MiB, a pod can't be more than some 2
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_END = re.compile(rb"\r?\n\r?\n")
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request."""

    method: str
    path: str  # with its query
    body: bytes = b""
    keep_alive: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """What can't be taken; the connection ends with it."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    path: str
    length: int
    keep_alive: bool
    waits: bool  # for a 100 before the body is sent


class HttpStream:
    """Feed it, then ask for what is complete until there is nothing."""

    def __init__(self, rule: HostRule, room: Callable[[int], bool]) -> None:
        self._rule = rule
        self._room = room  # whether there is room for a body of that many bytes
        self._kept = bytearray()
        self._head: _Head | None = None
        self.held = 0  # bytes of room that are taken
        self.go_on = False  # the client waits for CONTINUE

    @property
    def begun(self) -> bool:
        """Whether a part of a request is here."""
        return self._head is not None or bool(self._kept)

    def feed(self, data: bytes) -> None:
        self._kept += data

    def next(self) -> Request | Refusal | None:
        """The next request that is whole."""
        if self._head is None:
            found = self._read_head()
            if not isinstance(found, _Head):
                return found
            if found.length > MOST_BODY:
                return Refusal(413, f"a body of {found.length} bytes; the most is {MOST_BODY}")
            if not self._room(found.length):
                return Refusal(503, "too many large requests at a time")
            self._head, self.held = found, found.length
            self.go_on = found.waits and len(self._kept) < found.length
        head = self._head
        if len(self._kept) < head.length:
            return None
        body = bytes(self._kept[: head.length])
        del self._kept[: head.length]
        self._head, self.go_on = None, False
        return Request(head.method, head.path, body, head.keep_alive)

    def _read_head(self) -> _Head | Refusal | None:
        while self._kept[:2] == b"\r\n":  # some clients end a body with one
            del self._kept[:2]
        end = _END.search(self._kept, 0, MOST_HEAD + 4)
        if end is None:
            return Refusal(431, f"the head is more than {MOST_HEAD} bytes") if len(self._kept) > MOST_HEAD else None
        head = bytes(self._kept[: end.start()])
        del self._kept[: end.end()]
        return _head(head, self._rule)


@functools.lru_cache(64)  # a client says the same again and again, but for some digits of a length
def _head(head: bytes, rule: HostRule) -> _Head | Refusal:
    lines = head.replace(b"\r\n", b"\n").split(b"\n")
    asked = _REQUEST_LINE.fullmatch(lines[0])
    fields = [_HEADER.fullmatch(line) for line in lines[1:]]
    if asked is None or not all(fields):
        return Refusal(400, "this is no HTTP/1 request")
    headers: dict[bytes, bytes] = {}
    for field in fields:
        assert field is not None
        name = field[1].lower()
        if name in headers and name in (b"host", b"content-length", b"transfer-encoding"):
            return Refusal(400, f"two headers {name.decode('ascii')}")
        headers[name] = field[2].strip()
    if not rule.allows(headers.get(b"host", b"").decode("latin-1")):
        return Refusal(421, "this server answers to the names of loopback only")
    if b"transfer-encoding" in headers:
        return Refusal(411, "say the body's length with Content-Length")
    length = headers.get(b"content-length", b"0")
    if not re.fullmatch(rb"\d{1,18}", length):
        return Refusal(400, "Content-Length is no number")
    keep = asked[3] == b"1" and headers.get(b"connection", b"").lower() != b"close"
    waits = headers.get(b"expect", b"").lower() == b"100-continue"
    return _Head(asked[1].decode(), asked[2].decode("ascii"), int(length), keep, waits)


def encode(status: int, body: str, keep_alive: bool, content_type: str = "application/json") -> bytes:
    """An answer as it goes over the wire."""
    content = body.encode(errors="replace")
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n"
        f"X-Content-Type-Options: nosniff\r\nConnection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
    )
    return head.encode("ascii") + content
