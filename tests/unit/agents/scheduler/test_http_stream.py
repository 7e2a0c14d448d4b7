# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Requests out of bytes, however they are cut, and refusals of what can't be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.http_exchange import HostRule
from colocation.scheduler.http_stream import MOST_BODY, MOST_HEAD, HttpStream, Refusal, Request, encode

POST = b"POST /prioritize HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nContent-Length: 4\r\n\r\nbody"
GET = b"GET /livez?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def stream(room: bool = True) -> HttpStream:
    return HttpStream(HostRule(loopback=True), lambda _length: room)


def read(data: bytes, room: bool = True) -> Request | Refusal | None:
    made = stream(room)
    made.feed(data)
    return made.next()


def test_requests_one_after_the_other_on_a_connection() -> None:
    made = stream()
    made.feed(POST + GET + b"\r\n" + POST[:50])
    assert made.next() == Request("POST", "/prioritize", b"body", True)
    assert made.next() == Request("GET", "/livez?x=1", b"", True)
    assert made.next() is None
    assert made.begun
    made.feed(POST[50:])
    assert made.next() == Request("POST", "/prioritize", b"body", True)
    assert not made.begun


@given(st.lists(st.integers(0, len(POST + GET)), max_size=10))
def test_where_it_is_cut_does_not_matter(cuts: list[int]) -> None:
    whole, made, found = POST + GET, stream(), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(whole)], strict=True):
        made.feed(whole[start:end])
        while (request := made.next()) is not None:
            found.append(request)
    assert found == [Request("POST", "/prioritize", b"body", True), Request("GET", "/livez?x=1", b"", True)]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"what?\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 0x10\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /" + b"a" * MOST_HEAD, 431),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MOST_HEAD + b"\r\n\r\n", 431),
    ],
)
def test_what_is_refused(head: bytes, status: int) -> None:
    found = read(head)
    assert isinstance(found, Refusal)
    assert found.status == status


def test_a_large_body_is_refused_before_it_comes_and_room_is_asked_for() -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
    assert read(head % (MOST_BODY + 1)) == Refusal(413, f"a body of {MOST_BODY + 1} bytes; the most is {MOST_BODY}")
    assert read(head % MOST_BODY) is None
    found = read(head % MOST_BODY, room=False)
    assert isinstance(found, Refusal)
    assert found.status == 503


@pytest.mark.parametrize(
    ("head", "keeps"),
    [(b"HTTP/1.1\r\n", True), (b"HTTP/1.1\r\nConnection: close\r\n", False), (b"HTTP/1.0\r\n", False)],
)
def test_how_long_a_connection_is_kept(head: bytes, keeps: bool) -> None:
    assert read(b"GET / " + head + b"\r\n") == Request("GET", "/", b"", keeps)


def test_a_client_that_waits_to_be_told_to_go_on_is_told() -> None:
    made = stream()
    made.feed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert made.next() is None
    assert made.go_on


def test_an_answer() -> None:
    head, _end, body = encode(200, "é", True).partition(b"\r\n\r\n")
    assert body == b"\xc3\xa9"
    assert b"\r\nContent-Length: 2\r\n" in head
    assert head.endswith(b"Connection: keep-alive")
    assert b"Connection: close" in encode(413, "", False)


@given(st.binary(max_size=300))
def test_any_bytes_are_requests_refusals_or_not_enough(data: bytes) -> None:
    made = stream()
    made.feed(data)
    for _turn in range(400):
        if not isinstance(made.next(), Request):
            return
    raise AssertionError("it never ends")
