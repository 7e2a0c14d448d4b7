# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One deadline for the whole answer, however it is handed out; and addresses that are none."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from colocation.scheduler.fetch import FetchError, Target, fetch

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
RECORD = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"  # a handshake begins
GIVEN_UP = 8.0  # seconds after which the server does not go on


def dripped(sock: socket.socket, first: bytes, drops: bytes, over: threading.Event) -> None:
    end = time.monotonic() + GIVEN_UP
    try:
        with sock:
            sock.sendall(first)
            for drop in itertools.cycle(drops[at : at + 1] for at in range(len(drops))):
                sock.sendall(drop)
                if over.wait(0.02) or time.monotonic() > end:
                    return
    except OSError:
        pass  # the client had enough


@pytest.fixture
def dripping() -> Iterator[Callable[[bytes, bytes], int]]:
    """The port of a server that says something, and then drop by drop without an end."""
    over, ends = threading.Event(), []

    def begin(first: bytes, drops: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with listener:
                dripped(listener.accept()[0], first, drops, over)

        thread = threading.Thread(target=serve)
        thread.start()
        ends.append(thread)
        port: int = listener.getsockname()[1]
        return port

    yield begin
    over.set()
    for thread in ends:
        thread.join()


@pytest.mark.parametrize(
    ("first", "drops", "scheme"),
    [
        (HEAD + b"X-Slow: ", b"x", "http"),
        (HEAD, b"A: b\r\n", "http"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "http"),
        (CHUNKED, b"0", "http"),
        (HEAD + b"\r\n", b"x", "http"),
        (RECORD, b"\0", "https"),
    ],
)
def test_who_hands_out_drops_is_given_up_in_time(
    dripping: Callable[[bytes, bytes], int], first: bytes, drops: bytes, scheme: str
) -> None:
    context = ssl.create_default_context() if scheme == "https" else None
    target = Target(f"{scheme}://127.0.0.1:{dripping(first, drops)}/metrics", {}, context)
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"did not answer within 0.5 s"):
        fetch(target, 0.5, 1 << 20)
    assert time.monotonic() - began < GIVEN_UP / 2


@pytest.mark.parametrize(
    "url",
    ["http://[::1/x", "http://a:b/x", "http://a:99999/x", "http://a b/x", "http://a\0b/x", "http://" + "ä" * 99 + "/x",
     "http://..a/x", "http:///x", "x"],
)  # fmt: skip
def test_an_address_that_is_none_is_an_error_in_words(url: str) -> None:
    with pytest.raises(FetchError):
        fetch(Target(url, {}), 0.5, 100)


def test_a_header_that_can_not_be_sent_is_an_error_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = Target(f"http://127.0.0.1:{listener.getsockname()[1]}/", {"Authorization": "a\nb"})
        with pytest.raises(FetchError, match="can't be asked"):
            fetch(target, 0.5, 100)
