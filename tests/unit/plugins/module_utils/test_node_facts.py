# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import NodeFacts, from_json


@dataclass(frozen=True, slots=True)
class Inner:
    word: str
    number: int


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    maybe: Inner | None
    flag: bool | None
    table: dict[str, tuple[str, ...]]
    real: float


GOOD: dict[str, Any] = {
    "inner": {"word": "a", "number": 1},
    "many": [{"word": "b", "number": 2}],
    "maybe": None,
    "flag": True,
    "table": {"x": ["1", "2"]},
    "real": 1,
}


def test_json_becomes_values() -> None:
    assert from_json(Outer, GOOD) == Outer(Inner("a", 1), (Inner("b", 2),), None, True, {"x": ("1", "2")}, 1.0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"inner": None}, "Outer.inner: a dictionary is wanted, not None"),
        ({"inner": {"word": "a"}}, "Outer.inner: without number"),
        ({"many": "text"}, "Outer.many: a list is wanted, not 'text'"),
        ({"many": [{"word": "a", "number": "1"}]}, r"Outer.many\[0\].number: int is wanted, not '1'"),
        ({"flag": "yes"}, "Outer.flag: bool is wanted, not 'yes'"),
        ({"table": []}, "Outer.table: a dictionary is wanted"),
        ({"table": {"x": [1]}}, r"Outer.table\[x\]\[0\]: str is wanted, not 1"),
        ({"real": "1"}, "Outer.real: float is wanted, not '1'"),
    ],
)
def test_the_field_that_does_not_fit_is_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json(Outer, GOOD | change)


@given(st.from_type(NodeFacts))
def test_facts_survive_the_way_to_the_controller(facts: NodeFacts) -> None:
    if math.isfinite(facts.clock.now):
        assert from_json(NodeFacts, json.loads(json.dumps(asdict(facts)))) == facts
