# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Quantities: amounts, their many writings and the canonical one. A contract test asks the API server for the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import (
    MOST,
    ZERO,
    Quantity,
    QuantityError,
    parse_quantity,
)

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
nanos = st.integers(-(10**30), 10**30)


@pytest.mark.parametrize(
    ("text", "canonical", "nano"),
    [
        ("0", "0", 0),
        ("-0", "0", 0),
        ("00010", "10", 10 * 10**9),
        ("1000", "1k", 10**12),
        ("1k", "1k", 10**12),
        ("1e3", "1e3", 10**12),
        ("1E3", "1e3", 10**12),
        ("15e4", "150e3", 15 * 10**13),
        ("1e-3", "1e-3", 10**6),
        ("1E", "1E", 10**27),
        ("1500m", "1500m", 15 * 10**8),
        ("1.5", "1500m", 15 * 10**8),
        (".5", "500m", 5 * 10**8),
        ("5.", "5", 5 * 10**9),
        ("0.5Ki", "512", 512 * 10**9),
        ("1.5Ki", "1536", 1536 * 10**9),
        ("1024", "1024", 1024 * 10**9),
        ("1024Ki", "1Mi", (1 << 20) * 10**9),
        ("2048Mi", "2Gi", (1 << 31) * 10**9),
        ("1025Ki", "1025Ki", 1025 * 1024 * 10**9),
        ("1.1Ki", "1126400m", 11264 * 10**8),
        ("+3", "3", 3 * 10**9),
        ("-1500m", "-1500m", -15 * 10**8),
        ("0.0000000001", "1n", 1),
        ("-0.0000000001", "-1n", -1),
        ("1.0000000001", "1000000001n", 10**9 + 1),
        ("99999999Ei", str(MOST), MOST * 10**9),
        ("123456789012345678901234567890", "123456789012345678901234567890", 123456789012345678901234567890 * 10**9),
    ],
)
def test_amount_and_canonical_form(text: str, canonical: str, nano: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.nano, str(quantity)) == (nano, canonical)


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", ".", "k", "Ki", "1 k", " 1", "1\n", "1K", "1ki", "1mi", "1KiB", "1e", "1e+", "1e1.5", "1.2.3", "--1",
     "0x10", "1_000", "١", "ten", "nan", "inf", "1e101", "1e-101", "1e999999999999", "1" * 65],
)  # fmt: skip
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(nanos, st.sampled_from(["decimal", "exponent", "binary"]))
def test_the_canonical_form_is_the_same_amount_and_stays(nano: int, style: str) -> None:
    quantity = Quantity(nano, style)
    again = parse_quantity(str(quantity))
    capped = style == "binary" and abs(quantity.value) > MOST
    assert again == quantity or capped
    assert str(parse_quantity(str(again))) == str(again)


@given(nanos)
def test_canonical_has_no_fraction_and_the_largest_suffix(nano: int) -> None:
    text = str(Quantity(nano))
    assert "." not in text
    number = text.rstrip("numkMGTPE")
    if number != "0" and not text.endswith("E"):
        assert not number.endswith("000")


@given(st.integers(0, MOST), st.sampled_from(sorted(DECIMAL)))
def test_decimal_suffixes_are_powers_of_ten(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}").nano == number * 10 ** (DECIMAL[suffix] + 9)
    assert parse_quantity(f"{number}e{DECIMAL[suffix]}") == parse_quantity(f"{number}{suffix}")


@given(st.integers(0, 1 << 20), st.sampled_from(sorted(BINARY)))
def test_binary_suffixes_are_powers_of_two(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}").value == min(number << BINARY[suffix], MOST)


@given(nanos, nanos)
def test_quantities_compare_and_add_as_amounts(one: int, other: int) -> None:
    first, second = Quantity(one, "decimal"), Quantity(other, "exponent")
    assert (first < second, first == second) == (one < other, one == other)
    assert first + second - second == first and first + ZERO == first


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_quantity(text)
    except QuantityError as error:
        assert text[:5] in str(error) or repr(text) in str(error)
