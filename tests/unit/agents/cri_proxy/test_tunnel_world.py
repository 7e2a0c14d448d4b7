# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What comes out of a tunnel equals what went in, except the edits, between two peers of the h2 library."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.http2_world import (
    EDITS,
    Call,
    Rules,
    Watcher,
    World,
)

LIVES = int(os.environ.get("COLOCATION_RELAY_LIVES", "0"))
lives = settings(max_examples=LIVES or 20, deadline=None)
seeds = st.integers(0, 2**64)


def allowed(call: Call, watcher: Watcher | None) -> bytes:
    """What the server must have got in the end."""
    if watcher is None or not watcher.holds or watcher.body is None:
        return call.request
    assert watcher.body == call.request
    return call.request if watcher.edit == "raise" else EDITS[watcher.edit](call.request)


def check(world: World) -> None:
    assert not [problem for part, problem in world.troubles if part != "policy"]
    assert not world.tunnel.plain
    for call in world.calls.values():
        watcher = world.watchers.get(call.number)
        wanted = allowed(call, watcher)
        if watcher is not None:
            assert len(watcher.endings) == 1, watcher
        if call.reset:
            assert wanted.startswith(bytes(call.seen))
            continue
        assert call.got_end
        assert call.got == call.answer
        if call.seen_end:
            assert call.seen == wanted
        if watcher is not None:
            assert watcher.endings == [("answered", b"0")]
            assert watcher.answer == call.answer
    check_books(world)


def check_books(world: World) -> None:
    """Nothing is left, and both sides of the windows agree."""
    tunnel = world.tunnel
    assert not tunnel.held
    assert all(not stream.queue for stream in tunnel.streams.values())
    sender = tunnel.sender
    assert sender.window.size == world.server.inbound_flow_control_window
    assert world.client.outbound_flow_control_window == sender.window.size + sender.window.debt


@lives
@given(seeds)
def test_anything_that_http2_allows(seed: int) -> None:
    world = World(seed, Rules())
    world.run()
    check(world)


@lives
@given(seeds)
def test_a_server_that_takes_no_more_calls_ends_those_that_it_took(seed: int) -> None:
    world = World(seed, Rules(goes_away=True))
    refused, refuse = set[int](), world.tunnel.refused_above

    def refused_above(number: int) -> None:
        refused.update(open_one for open_one in world.tunnel.streams if open_one > number)
        refuse(number)

    world.tunnel.refused_above = refused_above  # type: ignore[method-assign]
    world.run()
    world.tunnel.closed()
    check(world)
    watchers = [world.watchers[number] for number in refused & world.watchers.keys()]
    assert all(watcher.endings == [("lost", True)] for watcher in watchers)


@lives
@given(seeds, st.integers(0, 3_000))
@example(313, 289)  # a body comes while its lane waits behind another request's trailers
def test_held_requests_larger_than_every_window(seed: int, window: int) -> None:
    world = World(seed, Rules(calls=4, largest=150_000, window=window, held_share=0.8, resets=False, early=False))
    world.run()
    check(world)
    assert all(call.seen_end for call in world.calls.values())


@lives
@given(seeds)
def test_without_a_reset_every_held_request_is_decided(seed: int) -> None:
    world = World(seed, Rules(resets=False, early=False, trailers=False))
    world.run()
    check(world)
    for call in world.calls.values():
        watcher = world.watchers.get(call.number)
        assert watcher is None or (watcher.body == call.request) != bool(watcher.gone)


@pytest.mark.parametrize("seed", range(3))
def test_many_calls_on_one_connection_leave_nothing_behind(seed: int) -> None:
    world = World(seed, Rules(calls=200, steps=4000, largest=3000, long_headers=False))
    world.run()
    check(world)
    assert len(world.calls) > 100
    assert len(world.tunnel.streams) < 20
