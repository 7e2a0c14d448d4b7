# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Sets of CPUs and their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.cri_proxy.cpus import BadCpuList, members, of, parse, show, union

SETS = st.sets(st.integers(0, 300))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        (" 1 , 4-5 \n", [1, 4, 5]),
        ("5,4-6", [4, 5, 6]),
        ("16383", [16383]),
    ],
)
def test_a_list_is_read(text: str, numbers: list[int]) -> None:
    assert list(members(parse(text))) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0x1", "1-2-3", "16384", "9" * 5000, "٣", "1:2"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(BadCpuList):
        parse(text)


@given(SETS)
def test_what_is_shown_is_read_back(numbers: set[int]) -> None:
    assert list(members(of(numbers))) == sorted(numbers)
    assert parse(show(of(numbers))) == of(numbers)


@given(SETS)
def test_what_is_shown_is_as_short_as_the_kernel_writes_it(numbers: set[int]) -> None:
    parts = show(of(numbers)).split(",") if numbers else []
    runs = sum(1 for number in numbers if number - 1 not in numbers)
    assert len(parts) == runs
    assert show(of([0, 1])) == "0-1"


@given(st.lists(SETS))
def test_a_union_has_all_of_each(many: list[set[int]]) -> None:
    assert union(of(one) for one in many) == of(set().union(*many))
