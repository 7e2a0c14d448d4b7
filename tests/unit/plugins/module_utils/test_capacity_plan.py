# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Plans: what changes for each state, as a patch that a double of the API server's applies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import (
    EXACT,
    WishError,
    live_plugins,
    make_plan,
    make_wish,
    unsettled,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import parse_quantity

GOOD = ["a/b", "c.d/e"]
NAMES = [*GOOD, "g h/i~1/j"]  # the API server takes such a key too
amounts = st.sampled_from(["0", "1", "1k", "1000", "2Ki", "2048"])
resources = st.dictionaries(st.sampled_from(GOOD), amounts)
capacities = st.dictionaries(st.sampled_from([*NAMES, "cpu", "attachable-volumes-x"]), amounts)
states = st.sampled_from(["present", "absent", "exact"])


class TestFailed(Exception):
    """A `test` operation does not hold: the API server would answer 422."""

    __test__ = False


def applied(node: dict[str, Any], operations: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """A double of the API server's JSON patch, for the operations that plans have."""
    node = copy.deepcopy(node)
    for operation in operations:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = node
        for part in parts[:-1]:
            place = place[part]
        if operation["op"] == "test" and place.get(parts[-1]) != operation["value"]:
            raise TestFailed(operation)
        if operation["op"] == "add":
            place[parts[-1]] = operation["value"]
        if operation["op"] == "remove":
            del place[parts[-1]]
    return node


def node(capacity: dict[str, str] | None, allocatable: dict[str, str] | None = None) -> dict[str, Any]:
    status = {"capacity": capacity, "allocatable": allocatable}
    return {"status": {name: part for name, part in status.items() if part is not None}}


def make(state: str, wanted: dict[str, Any]) -> Any:
    return make_wish(state, wanted) if wanted or state == EXACT else None


@given(states, resources, st.none() | capacities, st.none() | capacities)
def test_a_plan_makes_the_wish_true_and_touches_nothing_else(
    state: str, wanted: dict[str, str], capacity: dict[str, str] | None, allocatable: dict[str, str] | None
) -> None:
    wish = make(state, wanted)
    if wish is None:
        return
    before = node(capacity, allocatable)
    plan = make_plan(before, wish)
    after = applied(before, plan.operations)
    assert not make_plan(after, wish), "a second run changes nothing"
    found = {name: parse_quantity(text) for name, text in (after["status"].get("capacity") or {}).items()}
    for name in NAMES:
        old = (capacity or {}).get(name)
        if name in wanted:
            assert found.get(name) == (None if state == "absent" else parse_quantity(wanted[name]))
        else:
            assert found.get(name) == (None if state == "exact" or old is None else parse_quantity(old))
    assert {n: t for n, t in (capacity or {}).items() if "/" not in n} == {
        n: t for n, t in (after["status"].get("capacity") or {}).items() if "/" not in n
    }
    changed = {n for n in NAMES if (capacity or {}).get(n) != (after["status"].get("capacity") or {}).get(n)}
    assert changed == {*plan.before, *plan.after}, "the diff has the keys that change, and no other"


@given(states, resources, capacities, st.sampled_from(NAMES), amounts | st.none())
def test_whoever_was_faster_is_noticed(
    state: str, wanted: dict[str, str], capacity: dict[str, str], name: str, theirs: str | None
) -> None:
    wish = make(state, wanted)
    if wish is None:
        return
    plan = make_plan(node(capacity), wish)
    touched = {*plan.before, *plan.after}
    if name not in touched or capacity.get(name) == theirs or not capacity:
        return
    others = {key: text for key, text in {**capacity, name: theirs}.items() if text is not None}
    with pytest.raises((TestFailed, KeyError)):
        applied(node(others), plan.operations)


def test_equal_amounts_are_no_change() -> None:
    for text in ("1k", "1000", "1e3", "1000000m", 1000):
        assert not make_plan(node({"a/b": "1k"}), make_wish("present", {"a/b": text}))
    assert make_plan(node({"a/b": "1k"}), make_wish("present", {"a/b": 1001})).after == {"a/b": "1001"}


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(WishError) as problem:
        make_wish("present", {"cpu": 1, "a/b": "x", "c/d": 1.5, "e/f": True, "g/h": 1})
    for part in ("'cpu'", "'x' is no quantity", "c/d: 1.5 is no whole", "e/f needs an amount"):
        assert part in str(problem.value)
    assert "g/h" not in str(problem.value)
    with pytest.raises(WishError, match="state=absent needs resources"):
        make_wish("absent", {})


def test_a_resource_with_a_bad_name_can_go() -> None:
    [name] = set(NAMES) - set(GOOD)
    before = node({name: "1"})
    for wish in (make_wish("absent", {name: None}), make_wish("exact", {})):
        assert applied(before, make_plan(before, wish).operations) == node({})
    with pytest.raises(WishError):
        make_wish("absent", {"cpu": None})


def test_a_live_plugin_speaks_against_it() -> None:
    managed = [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:capacity": {"f:a/b": {}}}}}]
    there = {"metadata": {"managedFields": managed}, **node({"a/b": "4"}, {"a/b": "4"})}
    for wish in (make_wish("absent", {"a/b": None}), make_wish("present", {"a/b": 5}), make_wish("exact", {})):
        assert "a/b belongs to a live device plugin (4 allocatable)" in live_plugins(make_plan(there, wish))[0]
    assert live_plugins(make_plan(there, make_wish("exact", {"a/b": 4, "c/d": 1}))) == []


def test_when_a_node_has_settled() -> None:
    present, absent = make_wish("present", {"a/b": 1000}), make_wish("absent", {"a/b": None})
    assert unsettled(node({"a/b": "1k"}, {"a/b": "1k"}), present) == ""
    assert "not allocatable yet" in unsettled(node({"a/b": "1k"}), present)
    assert "is 5 allocatable yet" in unsettled(node({"a/b": "1k"}, {"a/b": "5"}), present)
    assert unsettled(node({"cpu": "1"}), absent) == ""
    assert "still allocatable" in unsettled(node({}, {"a/b": "1"}), absent)
    assert "there again" in unsettled(node({"a/b": "0"}), absent)
