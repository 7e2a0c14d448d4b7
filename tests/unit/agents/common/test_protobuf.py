# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Message classes from a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.protobuf import message_classes

TABLE = {
    "Inner": {"number": (1, "int64")},
    "Outer": {
        "name": (1, "string"),
        "inner": (2, "Inner"),
        "many": (3, "repeated Inner"),
        "texts": (4, "map<string, string>"),
        "flag": (15, "bool"),
    },
}
OUTER = message_classes("test", TABLE)["Outer"]


@given(
    st.text(st.characters(codec="utf-8")),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))),
)
def test_what_goes_in_comes_out(name: str, number: int, numbers: list[int], texts: dict[str, str]) -> None:
    many = [{"number": n} for n in numbers]
    made = OUTER(name=name, inner={"number": number}, many=many, texts=texts, flag=True)
    read = OUTER.FromString(made.SerializeToString())
    assert (read.name, read.inner.number, [m.number for m in read.many]) == (name, number, numbers)
    assert (dict(read.texts), read.flag) == (texts, True)


def test_the_bytes_are_protobufs() -> None:
    assert OUTER(name="ab", inner={"number": 3}, flag=True).SerializeToString() == b"\x0a\x02ab\x12\x02\x08\x03\x78\x01"


def test_fields_that_the_table_leaves_out_survive() -> None:
    newer = OUTER(name="a").SerializeToString() + b"\x92\x06\x03new"  # field 98
    assert OUTER.FromString(newer).SerializeToString() == newer


def test_a_type_that_is_not_there_is_found_at_once() -> None:
    with pytest.raises(ValueError, match=r"A\.b: there is no type 'C'"):
        message_classes("test", {"A": {"b": (1, "C")}})
