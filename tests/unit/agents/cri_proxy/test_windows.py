# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The law of windows, for any order of grants and of bytes that are more or less than the client paid."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colocation.cri_proxy.windows import Window

steps = st.lists(st.tuples(st.sampled_from(["granted", "owe"]), st.integers(-5_000, 5_000)), max_size=40)


@given(steps)
def test_the_client_never_knows_less_than_is_there_nor_is_owed_for_ever(taken: list[tuple[str, int]]) -> None:
    window = Window(65_535)
    client, on_its_way = 65_535, 0  # what it believes; what was sent beyond what it paid
    for kind, amount in taken:
        if kind == "granted":
            client += window.granted(abs(amount))
        else:
            client += window.owe(amount)
            on_its_way += amount
        assert client == window.size - on_its_way + window.debt
        assert window.debt >= 0
    debt = window.debt
    assert window.granted(debt + 7) == 7
    assert window.debt == 0


def test_what_an_edit_adds_is_taken_off_the_next_grants() -> None:
    window = Window(100)
    assert window.owe(30) == 0
    assert [window.granted(20), window.granted(20), window.granted(20)] == [0, 10, 20]
    assert window.size == 160


def test_what_an_edit_saves_is_told_at_once_unless_it_is_owed() -> None:
    window = Window(100)
    assert window.owe(-30) == 30
    assert window.owe(20) == 0
    assert window.owe(-30) == 10
    assert window.debt == 0
