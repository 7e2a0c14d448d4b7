# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Requests and answers as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.http_exchange import MOST_HEAD, Answer, HostRule, Request, complete, encode, parse

LOOPBACK = HostRule(loopback=True)


def asked(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


def test_a_request_is_its_path() -> None:
    head = asked("GET /status?x=1 HTTP/1.1", "Host: localhost:9461", "Accept: */*")
    assert complete(head)
    assert not complete(head[:-1])
    assert parse(head, LOOPBACK) == Request("/status", "localhost:9461")
    assert parse(b"HEAD / HTTP/1.0\n\n", LOOPBACK) == Request("/", "", head_only=True)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (asked("GET  / HTTP/1.1"), 400),
        (asked("GET status HTTP/1.1"), 400),
        (asked("GET / HTTP/1.1", "no header"), 400),
        (asked("GET / HTTP/1.1", " Host: x"), 400),
        (asked("GET / HTTP/1.1", "Host: localhost", "Host: localhost"), 400),
        (asked("POST / HTTP/1.1", "Content-Length: 3"), 405),
        (asked("GET / HTTP/1.1", "Host: evil.example"), 421),
        (asked("GET / HTTP/1.1", "X: " + "x" * MOST_HEAD), 431),
    ],
)
def test_what_is_refused(head: bytes, status: int) -> None:
    answer = parse(head, LOOPBACK)
    assert isinstance(answer, Answer)
    assert answer.status == status
    assert encode(answer).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9461", "[::1]", "[::1]:9461"])
def test_loopback_has_its_names(host: str) -> None:
    assert LOOPBACK.allows(host)


@pytest.mark.parametrize("host", ["node1", "127.0.0.1.evil.example", "localhost.evil.example:80", "::1"])
def test_other_names_are_not_loopbacks(host: str) -> None:
    assert not LOOPBACK.allows(host)
    assert HostRule(loopback=False).allows(host)


@given(st.binary())
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    assert isinstance(parse(head, LOOPBACK), Request | Answer)


@given(st.text(), st.sampled_from((200, 404, 405, 503)), st.booleans())
def test_an_answer_ends_where_it_says(body: str, status: int, head_only: bool) -> None:
    head, _end, sent = encode(Answer(status, body), head_only).partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    assert int(fields["Content-Length"]) == len(body.encode(errors="replace"))
    assert sent == (b"" if head_only else body.encode(errors="replace"))
    assert "default-src 'none'" in fields["Content-Security-Policy"]
    assert ("Allow" in fields) == (status == 405)
