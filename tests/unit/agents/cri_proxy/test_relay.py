# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The relay's sockets: what passes, who waits for whom, who learns of whose end."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import PolicyDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.relay_site import (
    LIMIT,
    Site,
    dialled,
    listening,
    received,
    site,
    until,
)
from colocation.cri_proxy import relay
from colocation.cri_proxy.frames import DATA, GOAWAY, HEAD, PREFACE, SETTINGS, frame

START = PREFACE + frame(SETTINGS, 0, 0)
PATH = (
    b"\x44"
    + bytes([len(b"/runtime.v1.RuntimeService/CreateContainer")])
    + b"/runtime.v1.RuntimeService/CreateContainer"
)
CREATE = frame(1, 4, 1, b"\x83\x86" + PATH)


@pytest.fixture(params=["plain", "placed"])
def any_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with site(PolicyDouble() if request.param == "placed" else None) as made:
        yield made


@pytest.fixture
def placed() -> Iterator[Site]:
    with site(PolicyDouble()) as made:
        yield made


@contextlib.contextmanager
def connected(where: Site) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of one connection through the relay."""
    with listening(where.runtime) as runtime, dialled(where.path) as client:
        server, _address = runtime.accept()
        with server:
            client.sendall(START)
            assert received(server, len(START)) == START
            yield client, server


def frames_of(content: bytes) -> bytes:
    """DATA of a stream that nobody is interested in."""
    return b"".join(frame(DATA, 0, 99, content[at : at + 16_000]) for at in range(0, len(content), 16_000))


def test_bytes_pass_both_ways_while_neither_side_waits(any_site: Site) -> None:
    """More than all buffers hold, in both directions at once: nobody may wait for the other's reading."""
    up, down = frames_of(random.Random(1).randbytes(60_000)), frames_of(random.Random(2).randbytes(3_000_000))
    with connected(any_site) as (client, server):
        sending = [threading.Thread(target=end.sendall, args=(data,)) for end, data in ((client, up), (server, down))]
        for thread in sending:
            thread.start()
        assert received(server, len(up)) == up
        assert received(client, len(down)) == down
        for thread in sending:
            thread.join()


def test_who_does_not_read_makes_the_other_side_wait(any_site: Site) -> None:
    """A reply of any size takes no memory while its reader sleeps."""
    with connected(any_site) as (client, server):
        server.settimeout(0.3)
        piece = frames_of(bytes(160_000))
        sent = 0
        with pytest.raises(TimeoutError):
            for _piece in range(1000):
                sent += server.send(piece)
        assert sent < 3_000_000
        waiting = sum(len(part) for pair in any_site.relay._pairs.values() for part in pair.client.waiting)
        assert waiting < 1_000_000
        received(client, sent)


@pytest.mark.parametrize("first", ["client", "server"])
def test_one_sides_end_is_the_others(any_site: Site, first: str) -> None:
    with connected(any_site) as (client, server):
        one, other = (client, server) if first == "client" else (server, client)
        last = frame(DATA, 0, 99, b"the last words")
        one.sendall(last)
        one.close()
        assert received(other, len(last)) == last
        assert other.recv(1) == b""
        until("the pair is gone", lambda: not any_site.relay.load().connections)


def test_the_last_words_reach_who_reads_late(any_site: Site) -> None:
    with connected(any_site) as (client, server):
        data = frames_of(bytes(400_000))
        thread = threading.Thread(target=lambda: (server.sendall(data), server.close()))
        thread.start()
        begun = time.process_time()
        until("it waits", lambda: any(pair.client.waiting for pair in any_site.relay._pairs.values()))
        thread.join(0.3)
        assert time.process_time() - begun < 0.25, "it turns in circles meanwhile"
        assert received(client, len(data)) == data
        thread.join()
        assert client.recv(1) == b""


def test_callers_are_turned_away_while_there_is_no_runtime(any_site: Site) -> None:
    for _turn in range(2):
        with dialled(any_site.path) as client:
            assert client.recv(1) == b""
    until("both are counted", lambda: any_site.metric("colocation_cri_runtime_unreachable_total 2"))
    with connected(any_site):
        assert any_site.relay.load().connections == 1


def test_a_runtime_that_starts_anew_is_dialled_anew(any_site: Site) -> None:
    with connected(any_site) as (client, server):
        server.close()
        assert client.recv(1) == b""
    os.unlink(any_site.runtime)
    with connected(any_site):
        pass
    until("both are gone", lambda: not any_site.relay.load().connections)


def test_one_broken_connection_does_not_hurt_another(placed: Site) -> None:
    with connected(placed) as (client, server), dialled(placed.path) as other:
        other.sendall(PREFACE + frame(SETTINGS, 0, 0, b"bad") + frame(DATA, 8, 0, b"\xff") + b"garbage" * 99)
        until("it is noted", lambda: placed.metric('colocation_cri_fail_open_total{part="frames"} 1'))
        ping = frame(6, 0, 0, bytes(8))
        client.sendall(ping)
        assert received(server, len(ping)) == ping


def test_an_exception_in_the_relay_ends_that_connection_alone(placed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(placed) as (client, server), dialled(placed.path) as other:
        until("both are there", lambda: placed.relay.load().connections == 2)
        broken = next(pair for pair in placed.relay._pairs.values() if pair.tunnel and not pair.tunnel.up._preface)
        monkeypatch.setattr(broken.tunnel, "from_client", lambda _data: 1 / 0)
        client.sendall(b"x")
        assert client.recv(1) == b""
        assert server.recv(1) == b""
        assert placed.metric('colocation_cri_fail_open_total{part="relay"} 1')
        assert placed.relay.responds(5)
        assert placed.relay.load().connections == 1
        other.close()


def test_a_request_that_does_not_end_is_let_go(placed: Site) -> None:
    with connected(placed) as (client, server):
        part = frame(DATA, 0, 1, b"\0\0\0\1\0begun")
        client.sendall(CREATE + part)
        assert received(server, len(CREATE)) == CREATE
        assert received(server, len(part)) == part
        assert placed.metric('colocation_cri_requests_total{call="CreateContainer",result="passed unread"} 1')


@contextlib.contextmanager
def ends_beside_a_call(where: Site) -> Iterator[tuple[socket.socket, Callable[[int], None]]]:
    """The relay is told to end while a call is under way: its client, and what answers it. It ends with the call."""
    with connected(where) as (client, server):
        whole = CREATE + frame(DATA, 1, 1, b"\0\0\0\0\0")
        client.sendall(whole)
        received(server, len(whole))
        ending = threading.Thread(target=where.relay.stop, args=(1000,))
        ending.start()

        def answers(stream: int) -> None:
            answer = frame(1, 5, stream, b"\x88")
            server.sendall(answer)
            assert received(client, len(answer)) == answer

        yield client, answers
        assert client.recv(1) == b""
        ending.join(LIMIT)
        assert not ending.is_alive() and not os.path.exists(where.path)


def test_the_end_lets_calls_end_first_and_serves_who_comes_meanwhile(placed: Site) -> None:
    with ends_beside_a_call(placed) as (client, answers):
        until("it is to end", lambda: placed.relay._end)
        with dialled(placed.path) as other:
            other.sendall(START)
            until("it is passed on", lambda: placed.relay.load().connections == 2)
        answers(1)
        assert received(client, HEAD + 8)[3] == GOAWAY


def test_a_container_that_was_made_is_started_before_the_end(placed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet needs a moment between the two calls."""
    monkeypatch.setattr(relay, "QUIET_TICKS", 1000)
    with ends_beside_a_call(placed) as (client, answers):
        answers(1)
        until("a moment passes", lambda: placed.relay._quiet)
        client.sendall(frame(1, 5, 3, b"\x83\x86" + PATH))
        until("the call is seen", lambda: placed.relay.load().calls)
        monkeypatch.setattr(relay, "QUIET_TICKS", 4)
        answers(3)
        assert received(client, HEAD + 8)[3] == GOAWAY


def test_in_its_last_seconds_it_turns_callers_away(placed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "LAST_SECONDS", 1000.0)
    with ends_beside_a_call(placed) as (client, answers):
        assert received(client, HEAD + 8)[3] == GOAWAY
        assert not os.path.exists(placed.path)
        answers(1)


def test_the_end_waits_no_longer_than_told(placed: Site) -> None:
    with connected(placed) as (client, _server):
        client.sendall(CREATE)
        until("the call is seen", lambda: placed.relay.load().calls)
        begun = time.monotonic()
        placed.relay.stop(0.2)
        assert time.monotonic() - begun < 2
        assert not placed.relay.responds(0.1)
        placed.relay.stop(0.2)


def test_a_policy_that_comes_later_is_for_new_connections() -> None:
    with site(None) as where, connected(where):
        assert where.relay.load().plain == 1
        where.intercept.policy = PolicyDouble()
        with dialled(where.path):
            until("it is there", lambda: where.relay.load().connections == 2)
            assert where.relay.load().plain == 1


def test_it_lives_on_when_there_are_no_more_files(any_site: Site) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connected(any_site) as (client, server):
        waiting = socket.socket(socket.AF_UNIX)
        highest = os.dup(0)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        try:
            waiting.connect(any_site.path)
            until("it noticed", lambda: not any_site.relay._accepting)
            client.sendall(frame(6, 0, 0, bytes(8)))
            assert received(server, 17)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        until("it accepts again", lambda: any_site.relay.load().connections == 2)
        waiting.close()


def test_it_lives_on_when_the_last_file_went_to_the_caller(any_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_how: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with listening(any_site.runtime):
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(LIMIT)
        with caller, monkeypatch.context() as patched:
            patched.setattr(relay, "socket", SimpleNamespace(**{**vars(socket), "socket": no_more}))
            caller.connect(any_site.path)
            assert caller.recv(1) == b""
        assert any_site.relay.responds(5)
        with dialled(any_site.path):
            until("it is there", lambda: any_site.relay.load().connections == 1)


@pytest.mark.parametrize("part", ["_accept", "_tick", "_begin_to_end"])
def test_no_error_of_its_own_ends_it(placed: Site, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_whatever: object) -> None:
        raise ValueError("broken")

    with monkeypatch.context() as patched, connected(placed) as (client, server):
        patched.setattr(placed.relay, part, fails)
        if part == "_accept":
            dialled(placed.path).close()
        elif part == "_tick":
            client.sendall(CREATE)  # is held, so the time is looked at
        else:
            placed.relay._ask(lambda: placed.relay._begin_to_end(1))
        until("it is noted", lambda: not placed.metric('colocation_cri_fail_open_total{part="relay"} 0'))
        assert placed.relay.responds(5)
        ping = frame(6, 0, 0, bytes(8))
        client.sendall(ping)
        received(server, len(CREATE) if part == "_tick" else 0)
        assert received(server, len(ping)) == ping


def test_a_connection_that_can_not_be_watched_is_closed(placed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(number: int, mask: int) -> None:
        raise OSError(errno.ENOSPC, "no more watches")

    with listening(placed.runtime), monkeypatch.context() as patched:
        epoll = placed.relay._epoll
        patched.setattr(placed.relay, "_epoll", SimpleNamespace(poll=epoll.poll, register=too_many))
        with dialled(placed.path) as client:
            assert client.recv(1) == b""
        assert placed.relay.load().connections == 0
        assert placed.metric('colocation_cri_connections{kind="placed"} 0')


def test_it_sleeps_when_nothing_happens(placed: Site) -> None:
    with connected(placed):
        assert placed.relay.responds(5)
        assert placed.relay._timeout() is None


def test_threads_that_compute_give_way_soon() -> None:
    """With Python's own interval, 5 ms, each passage through the relay may wait as long for another thread."""
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.005)
        with site(None):
            assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before)
