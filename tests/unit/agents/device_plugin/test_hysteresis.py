# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The offer shrinks at once, grows late, and never flaps."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.hysteresis import Damping, Offer, begin, step

SEED = Damping()  # 60 s, one block


def run(rooms: list[float], every: float = 10, damping: Damping = SEED) -> list[int]:
    """What is offered after each reading."""
    offer = begin(rooms[0], 0.0)
    offered = [offer.blocks]
    for number, fits in enumerate(rooms[1:], 1):
        offer = step(offer, fits, number * every, damping)
        offered.append(offer.blocks)
    return offered


def test_down_at_once_and_up_after_a_whole_cooldown() -> None:
    assert run([10.6, 7.2, 10.6, 10.6, 10.6, 10.6, 10.6, 10.6, 10.6]) == [10, 7, 7, 7, 7, 7, 7, 7, 10]


def test_up_to_what_every_reading_of_the_cooldown_allowed() -> None:
    assert run([5.0, *[9.0, 7.8, 9.0, 9.0, 9.0, 9.0, 9.0]]) == [5, 5, 5, 5, 5, 5, 5, 7]


def test_growths_are_a_cooldown_apart() -> None:
    grows = run([float(number) for number in range(30)])
    changes = [number for number in range(1, 30) if grows[number] != grows[number - 1]]
    assert changes
    assert all(later - earlier >= 6 for earlier, later in zip(changes, changes[1:], strict=False))


def test_less_than_a_block_and_the_slack_is_not_worth_it() -> None:
    assert set(run([5.0, *[6.4] * 20])) == {5}
    assert run([5.0, *[6.5] * 20])[-1] == 6
    assert set(run([5.0, *[7.4] * 20], damping=Damping(60, 2))) == {5}
    assert run([5.0, *[7.5] * 20], damping=Damping(60, 2))[-1] == 7


def test_one_long_gap_is_no_proof_of_a_cooldown() -> None:
    """After a suspended night the reading before it says nothing about the time between."""
    offer = step(begin(5.0, 0.0), 9.0, 10_000.0, SEED)
    assert offer.blocks == 5
    assert step(offer, 9.0, 10_060.0, SEED).blocks == 8


@pytest.mark.parametrize("back", [0.0, -1e9])
def test_a_clock_that_goes_back_grows_nothing(back: float) -> None:
    offer = begin(5.0, 1000.0)
    for _round in range(50):
        offer = step(offer, 20.0, back, SEED)
    assert offer.blocks == 5
    assert step(offer, 3.0, back, SEED).blocks == 3


OFFERS = st.lists(st.tuples(st.floats(0, 100), st.floats(-5, 300)), min_size=1, max_size=30)
DAMPINGS = st.builds(Damping, st.floats(0, 300), st.integers(1, 5), st.floats(0, 1))


def after(readings: list[tuple[float, float]], damping: Damping) -> tuple[Offer, float]:
    now = 0.0
    offer = begin(readings[0][1], now)
    for passed, fits in readings[1:]:
        now += passed
        offer = step(offer, fits, now, damping)
    return offer, now


@given(OFFERS, DAMPINGS)
def test_never_more_than_fits(readings: list[tuple[float, float]], damping: Damping) -> None:
    offer, _now = after(readings, damping)
    assert 0 <= offer.blocks <= max(0.0, readings[-1][1])


@given(OFFERS, DAMPINGS, st.floats(0, 100), st.floats(0, 300), st.floats(0, 50))
def test_more_room_is_never_answered_with_less(
    readings: list[tuple[float, float]], damping: Damping, passed: float, fits: float, more: float
) -> None:
    offer, now = after(readings, damping)
    less, much = step(offer, fits, now + passed, damping), step(offer, fits + more, now + passed, damping)
    assert less.blocks <= much.blocks


@given(st.floats(1, 100), st.floats(0, 0.5), st.integers(0, 1000))
def test_noise_below_the_slack_never_flaps(level: float, noise: float, seed: int) -> None:
    chance = random.Random(seed)
    offered = run([level + chance.uniform(-noise / 2, noise / 2) for _reading in range(400)])
    settled = offered[1:]
    falls = [later < earlier for earlier, later in zip(settled, settled[1:], strict=False)]
    assert sum(falls) <= 1
    assert len(set(settled[40:])) == 1


@given(OFFERS, DAMPINGS)
def test_what_is_remembered_does_not_grow(readings: list[tuple[float, float]], damping: Damping) -> None:
    offer, now = after(readings, damping)
    inside = [when for when, _fits in offer.room if when > now - damping.cooldown]
    assert len(offer.room) <= len(inside) + 1
