# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How a held request ends, case by case: what the server gets, and what is told."""

from __future__ import annotations

from collections.abc import Callable

import hpack
import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.http2_world import Watcher
from colocation.cri_proxy.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    window_update,
)
from colocation.cri_proxy.tunnel import MOST_HELD, MOST_HELD_IN_ALL, Tunnel

BLOCK = hpack.Encoder().encode([(":path", "/x")])
BEGIN = frame(HEADERS, END_HEADERS, 1, BLOCK)
PART, LAST = frame(DATA, 0, 1, b"begin"), frame(DATA, END_STREAM, 1, b"end")


class Held:
    """A tunnel in which every call is held, and what came out of it."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.tunnel = Tunnel(self.interested, lambda part, _problem: self.troubles.append(part))
        self.troubles: list[str] = []
        self.client(PREFACE + frame(SETTINGS, 0, 0))
        self.server(frame(SETTINGS, 0, 0))

    def interested(self, _headers: object) -> Watcher:
        self.watchers.append(Watcher(True, "grow"))
        return self.watchers[-1]

    def client(self, data: bytes) -> bytes:
        """What the server gets for it."""
        self.tunnel.from_client(data)
        return self.out()[0]

    def server(self, data: bytes) -> bytes:
        """What the server gets because of what it sent."""
        self.tunnel.from_server(data)
        return self.out()[0]

    def out(self) -> tuple[bytes, bytes]:
        lanes = (self.tunnel.up, self.tunnel.down)
        found = b"".join(lanes[0].out), b"".join(lanes[1].out)
        for lane in lanes:
            lane.out.clear()
        return found


def reset(code: int) -> bytes:
    return frame(RST_STREAM, 0, 1, code.to_bytes(4, "big"))


def go_away(last: int) -> bytes:
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4))


ENDINGS: dict[str, tuple[Callable[[Held], object], bool, bool]] = {
    "the client gives up": (lambda held: held.client(reset(8)), True, False),
    "the server breaks off": (lambda held: held.server(reset(2)), True, False),
    "the server refuses the stream": (lambda held: held.server(reset(7)), True, True),
    "the server goes and will not look": (lambda held: held.server(go_away(0)), True, True),
    "the connection ends": (lambda held: held.tunnel.closed(), True, False),
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("sent", [False, True])
def test_an_ending_says_whether_the_server_had_the_request(name: str, sent: bool) -> None:
    end, certain_if_held, certain_if_sent = ENDINGS[name]
    held = Held()
    assert held.client(BEGIN + PART) == BEGIN
    if sent:
        assert held.client(LAST) == frame(DATA, END_STREAM, 1, b"beginend" + b"+" * 50)
    end(held)
    held.tunnel.closed()
    assert held.watchers[0].endings == [("lost", certain_if_sent if sent else certain_if_held)]


def test_a_server_that_goes_away_after_this_call_still_answers_it() -> None:
    held = Held()
    held.client(BEGIN + PART + LAST)
    held.server(
        go_away(1) + frame(HEADERS, END_HEADERS | END_STREAM, 1, hpack.Encoder().encode([("grpc-status", "0")]))
    )
    assert held.watchers[0].endings == [("answered", b"0")]
    assert not held.tunnel.streams


LET_GO: dict[str, Callable[[Held], bytes]] = {
    "it was answered early": lambda held: held.server(frame(HEADERS, END_HEADERS, 1, b"\x88")),
    "it has trailers": lambda held: held.client(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"")),
    "it did not come to its end": lambda held: (held.tunnel.tick(), held.tunnel.tick(), held.out()[0])[-1],
    "the connection can't be read": lambda held: held.server(frame(HEADERS, END_HEADERS, 9, b"\xff")),
    "the server takes no more calls": lambda held: held.server(go_away(0)),
}


@pytest.mark.parametrize("why", LET_GO)
def test_what_is_let_go_goes_as_it_came(why: str) -> None:
    held = Held()
    held.client(BEGIN + PART)
    assert LET_GO[why](held).startswith(PART)
    assert held.watchers[0].gone == [why]
    assert held.watchers[0].body is None
    assert not held.tunnel.held


def test_headers_that_can_not_be_read_end_the_interest_and_nothing_else() -> None:
    held = Held()
    bad = frame(HEADERS, END_HEADERS, 1, b"\xff")
    assert held.client(bad + LAST) == bad + LAST
    later = frame(HEADERS, END_HEADERS, 3, BLOCK) + frame(DATA, END_STREAM, 3, b"x")
    assert held.client(later) == later
    assert held.troubles == ["headers"]
    assert not held.watchers


def test_too_much_is_let_go() -> None:
    held = Held()
    held.tunnel.sender.window.size = held.tunnel.sender.initial = 1 << 24
    held.client(BEGIN)
    piece = frame(DATA, 0, 1, bytes(16_384))
    for _piece in range(MOST_HELD // 16_384):
        assert held.client(piece) == b""
    assert held.client(piece) == piece * (MOST_HELD // 16_384 + 1)
    assert held.watchers[0].gone == ["it is too large"]
    assert held.client(piece) == piece


def test_too_much_in_all_is_let_go() -> None:
    held = Held()
    held.tunnel.sender.window.size = held.tunnel.sender.initial = 1 << 24
    number = 1
    while not any(watcher.gone for watcher in held.watchers):
        held.client(frame(HEADERS, END_HEADERS, number, BLOCK))
        for _piece in range(60):
            held.client(frame(DATA, 0, number, bytes(16_384)))
        number += 2
    assert sum(stream.size for stream in held.tunnel.held.values()) <= MOST_HELD_IN_ALL
    assert len(held.watchers) == MOST_HELD_IN_ALL // (60 * 16_384) + 1


def test_an_end_without_content_needs_no_window() -> None:
    """Even one below zero, as after SETTINGS that took back what was sent already."""
    held = Held()
    held.client(BEGIN + PART)
    held.tunnel.sender.window.size = -5
    held.client(frame(DATA, END_STREAM, 1, b""))
    held.tunnel.sender.window.size = 5 + 50
    assert held.server(window_update(1, 1)) == frame(DATA, END_STREAM, 1, b"begin" + b"+" * 50)


def test_an_empty_request_ends_in_a_window_below_zero() -> None:
    held = Held()
    held.client(BEGIN)
    held.watchers[0].edit = "empty"
    held.tunnel.sender.window.size = held.tunnel.streams[1].window.size = -5
    assert held.client(frame(DATA, END_STREAM, 1, b"")) == frame(DATA, END_STREAM, 1, b"")
