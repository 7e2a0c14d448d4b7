# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One HTTP exchange without I/O: the bytes of a request's head in, a request or a refusal out; an answer to bytes.

Only what a page server on loopback needs: GET and HEAD, no request body, one request a connection. The standard
library's http.server would do as well, but costs 7 MiB of memory (mostly its mail parser) in an agent that has 40.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_HEAD = 8192
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*|\*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_SECURITY = (
    # the page has one <style> and nothing else that could run or load
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: the path without its query."""

    path: str
    host: str
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HostRule:
    """Which names a caller may know us by. On loopback only loopback's: a web page elsewhere whose name was made to
    point here (DNS rebinding) must not read this through somebody's browser."""

    loopback: bool

    def allows(self, host: str) -> bool:
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) and not host.endswith("]") else host
        return not self.loopback or name.lower() in ("localhost", "127.0.0.1", "[::1]", "")


def complete(head: bytes) -> bool:
    """Whether the head's end has arrived."""
    return b"\r\n\r\n" in head or b"\n\n" in head


def parse(head: bytes, rule: HostRule) -> Request | Answer:
    """The request, or the answer that refuses it."""
    if len(head) > MOST_HEAD:
        return Answer(431, "The request's head is too large.\n")
    lines = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0].replace(b"\r\n", b"\n").split(b"\n")
    asked = _REQUEST_LINE.fullmatch(lines[0])
    headers = [_HEADER.fullmatch(line) for line in lines[1:]]
    if asked is None or not all(headers):
        return Answer(400, "This is no HTTP/1 request.\n")
    hosts = [found[2].decode("latin-1").strip() for found in headers if found and found[1].lower() == b"host"]
    if len(hosts) > 1:
        return Answer(400, "A request has one Host.\n")
    host = hosts[0] if hosts else ""
    if not rule.allows(host):
        return Answer(421, "This server answers to the names of loopback only.\n")
    if asked[1] not in (b"GET", b"HEAD"):
        return Answer(405, "Here one can only read: GET or HEAD.\n")
    return Request(asked[2].decode("ascii").split("?")[0], host, asked[1] == b"HEAD")


def encode(answer: Answer, head_only: bool = False) -> bytes:
    """The answer as it goes over the wire."""
    body = answer.body.encode(errors="replace")
    headers = [("Content-Type", answer.content_type), ("Content-Length", str(len(body))), *_SECURITY]
    if answer.status == 405:
        headers.append(("Allow", "GET, HEAD"))
    lines = [f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}", *(f"{name}: {value}" for name, value in headers)]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head if head_only else head + body
