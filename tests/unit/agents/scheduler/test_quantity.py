# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Quantities in all the ways in which the API writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import QuantityError, parse_quantity
from colocation.scheduler.quantity import is_quantity, quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("250m", 0.25),
        ("1", 1),
        (2, 2),
        ("1Gi", 1 << 30),
        ("1.5k", 1500),
        ("123456n", 0.000123456),
        ("1e3", 1000),
        (".5", 0.5),
    ],
)
def test_amounts(text: object, amount: float) -> None:
    assert quantity(text) == pytest.approx(amount)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1Gb", "nan", "inf", None, True, [], "1e9999", "9" * 65, "1١"])
def test_what_is_none(text: object) -> None:
    assert quantity(text) is None


def test_a_configuration_wants_more_than_nothing() -> None:
    assert is_quantity("200Mi") is None
    assert is_quantity("0") is not None
    assert is_quantity("much") is not None


@given(st.from_regex(r"[+-]?[0-9]{1,6}(\.[0-9]{0,4})?([numkMGTPE]|[KMGTPE]i|e[+-]?[0-9]{1,2})?", fullmatch=True))
def test_it_reads_what_the_modules_read(text: str) -> None:
    """Theirs is exact; ours is within a float of it, and within what the API keeps."""
    try:
        exact = parse_quantity(text).nano / 1e9
    except QuantityError:
        return
    ours = quantity(text)
    assert ours is not None
    if abs(exact) < 9e18:
        assert ours == pytest.approx(exact, rel=1e-9, abs=1.1e-9)
