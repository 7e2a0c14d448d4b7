# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Blocks: a held one is always on the list, names never change, a container's blocks are of one zone if they can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.blocks import Names, Share, allocated, offer, prefer, size
from colocation.device_plugin.devices import Device
from colocation.device_plugin.protocol import encode_devices

CM = Names()
IDS = st.builds(CM.name, st.integers(0, 3), st.integers(0, 40)) | st.sampled_from(("CM-3f2a9d", "gpu-1", "CM-0-007"))
HELD = st.frozensets(IDS, max_size=30)
SHARES = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(
    lambda targets: tuple(Share(number, target, number) for number, target in enumerate(targets))
)


@given(SHARES, HELD)
def test_as_many_as_the_target_or_as_are_held_whichever_is_more(
    shares: tuple[Share, ...], held: frozenset[str]
) -> None:
    offered = offer(CM, shares, held)
    taken = allocated(CM, shares, held)
    assert len(offered) == sum(max(share.target, taken[share.number]) for share in shares)
    assert len({device.id for device in offered}) == len(offered)


@given(SHARES, st.booleans())
def test_the_size_of_a_list_is_known_before_it_is_made(shares: tuple[Share, ...], hints: bool) -> None:
    told = [share if hints else Share(share.number, share.target) for share in shares]
    assert size(CM, told) == len(encode_devices(offer(CM, told, frozenset())))


@given(SHARES, HELD)
def test_all_that_is_held_is_on_the_list_and_first(shares: tuple[Share, ...], held: frozenset[str]) -> None:
    offered = [device.id for device in offer(CM, shares, held)]
    assert set(offered[: len(held)]) == held


@given(SHARES, HELD, HELD)
def test_the_same_held_blocks_make_the_same_list(
    shares: tuple[Share, ...], held: frozenset[str], other: frozenset[str]
) -> None:
    assert offer(CM, shares, held) == offer(CM, shares, frozenset(sorted(held, reverse=True)))
    assert {d.id for d in offer(CM, shares, frozenset())} == {
        CM.name(share.number, number) for share in shares for number in range(share.target)
    }


def test_names_and_hints() -> None:
    shares = (Share(0, 2, 0), Share(1, 1))  # node 1 has no processor
    assert offer(CM, shares, frozenset({"CM-0-1", "CM-1-7"})) == (
        Device("CM-0-1", numa=0),
        Device("CM-1-7"),
        Device("CM-0-0", numa=0),
    )


def test_blocks_of_another_plugin_or_of_a_node_that_is_gone_stay_while_they_are_held() -> None:
    held = frozenset({"CM-5b1c", "CM-4-0"})
    assert offer(CM, (Share(0, 1),), held) == (Device("CM-4-0"), Device("CM-5b1c"))
    assert allocated(CM, (Share(0, 1),), held) == {0: 2}


@pytest.mark.parametrize("id", ["CM-0", "CM-0-", "CM-00-1", "CM-0-01", "XM-0-1", "CM-0-1\n", "CM-0-x", "CM-0-٣", ""])
def test_other_names(id: str) -> None:
    assert CM.parse(id) is None
    assert CM.parse("CM-12-345") == (12, 345)


AVAILABLE = st.lists(st.builds(CM.name, st.integers(0, 2), st.integers(0, 20)), unique=True, min_size=1)


@given(AVAILABLE, st.data())
def test_a_preference_has_what_it_must_and_as_many_as_asked(available: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(available)))
    must = data.draw(st.lists(st.sampled_from(available), unique=True, max_size=size))
    chosen = prefer(CM, available, must, size)
    assert set(must) <= set(chosen) <= set(available)
    assert len(chosen) == len(set(chosen)) == size


@given(AVAILABLE, st.data())
def test_one_zone_is_enough_where_one_has_them(available: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(available)))
    zones = [id.split("-")[1] for id in available]
    chosen = {id.split("-")[1] for id in prefer(CM, available, [], size)}
    if max(zones.count(zone) for zone in set(zones)) >= size:
        assert len(chosen) == 1


def test_the_tightest_zone_and_the_lowest_numbers() -> None:
    free = ["CM-0-5", "CM-0-1", "CM-0-3", "CM-1-2", "CM-1-0"]
    assert prefer(CM, free, [], 2) == ["CM-1-0", "CM-1-2"]
    assert prefer(CM, free, ["CM-0-5"], 2) == ["CM-0-5", "CM-0-1"]
    assert prefer(CM, free, [], 4) == ["CM-0-1", "CM-0-3", "CM-0-5", "CM-1-0"]
