# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Blocks of pods that were told to go: not on offer before they have gone, and for a while after."""

from __future__ import annotations

from dataclasses import replace

from colocation.device_plugin.reclaim_offer import Withdrawn
from colocation.device_plugin.reclaim_view import Holding, PodHolding, Snapshot


def pod(uid: str, *blocks: str) -> PodHolding:
    return PodHolding("batch", uid, uid, "", (Holding("main", blocks),))


def snapshot(*pods: PodHolding, target: int = 2) -> Snapshot:
    held = sum(len(pod.blocks) for pod in pods)
    return Snapshot("test.com/colocation-memory", 1 << 29, target, target, held, pods)


A, B = pod("a", "CM-0-0", "CM-0-1"), pod("b", "CM-0-2")


def test_its_blocks_are_withdrawn_until_a_while_after_it_has_gone() -> None:
    told = Withdrawn().told(A)
    assert told.blocks == {"CM-0-0", "CM-0-1"}
    waiting = told.seen(snapshot(A, B), 1000.0, rest=60)
    gone = waiting.seen(snapshot(B), 1001.0, rest=60)
    assert gone.seen(snapshot(B), 1060.9, rest=60).blocks == told.blocks
    assert gone.seen(snapshot(B), 1061.0, rest=60).blocks == set()


def test_one_that_stays_gets_its_blocks_back_on_offer() -> None:
    assert Withdrawn().told(A).told(B).stays("a").blocks == {"CM-0-2"}


def test_a_block_that_somebody_else_got_is_his() -> None:
    gone = Withdrawn().told(A).seen(snapshot(B), 0.0, rest=60)
    assert gone.seen(snapshot(B, pod("c", "CM-0-1")), 1.0, rest=60).blocks == {"CM-0-0"}


def test_who_is_gone_holds_nothing_but_what_somebody_else_got() -> None:
    seen = replace(snapshot(A, B, pod("c", "CM-0-1", "CM-0-3")), allocated=5)
    assert seen.held({"a", "b", "c"}) == 5
    assert seen.held({"b", "c"}) == 4
    assert seen.held(set()) == 1  # of whom only the name is known


def test_how_many_blocks_the_node_offers_then() -> None:
    told = Withdrawn().told(A)
    assert told.left(snapshot(A, B, target=2)) == 1
    assert told.left(snapshot(A, B, target=9)) == 7
    assert told.left(snapshot(target=1)) == 0
    assert Withdrawn().left(snapshot(A, B, target=0)) == 3
