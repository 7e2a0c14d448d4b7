# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The line that shows people where the memory is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.memory_picture import WIDTH, picture, shares
from colocation.device_plugin.memory_snapshot import Zone

GIB = 1 << 30


def zone(total: int, online: int, target: int, allocated: int) -> Zone:
    return Zone(None, total * GIB, 0, online * GIB, 0, 0, 0, target, allocated, target)


def test_each_part_has_its_share() -> None:
    assert picture(zone(20, 10, 16, 4), GIB // 2) == (
        "████████████████████▓▓▓▓░░░░░░░░░░░░···· "
        "online 10.00 GiB █, held 2.00 GiB ▓, free 6.00 GiB ░, kept back 2.00 GiB ·"
    )


def test_more_held_than_there_is_still_fits_the_line() -> None:
    drawn = picture(zone(20, 15, 4, 30), GIB // 2).partition(" ")[0]
    assert drawn == "█" * 20 + "▓" * 20


@given(st.lists(st.integers(0, 1 << 50), min_size=4, max_size=4))
def test_all_cells_are_given_and_nobody_is_forgotten(sizes: list[int]) -> None:
    given_ = shares(sizes, WIDTH)
    assert sum(given_) == (WIDTH if any(sizes) else 0)
    assert [count > 0 for count in given_] == [size > 0 for size in sizes]
    exact = [size * WIDTH / max(sum(sizes), 1) for size in sizes]
    assert all(abs(count - share) < len(sizes) for count, share in zip(given_, exact, strict=True))
