# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a diff shows of objects: what differs, and nothing secret."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_objects import (
    Change,
    Name,
    difference,
    essence,
    told,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(whole: Any, shown: Any, other: Any) -> Any:
    """The other side of a difference, put together from one side and what was shown."""
    if not (isinstance(whole, dict) and isinstance(shown, dict) and isinstance(other, dict)):
        return other
    kept = {key: value for key, value in whole.items() if key not in shown and key not in other}
    return kept | {key: merged(whole.get(key), shown.get(key), value) for key, value in other.items()}


@given(OBJECTS, OBJECTS)
def test_a_difference_is_all_that_differs(before: dict[str, Any], after: dict[str, Any]) -> None:
    shown_before, shown_after = difference(before, after)
    assert merged(before, shown_before, shown_after) == after
    assert merged(after, shown_after, shown_before) == before


@given(OBJECTS)
def test_of_what_is_the_same_nothing_is_shown(one: dict[str, Any]) -> None:
    assert difference(one, one) == ({}, {})


def test_secrets_and_code_are_shown_by_their_hashes() -> None:
    before = {"kind": "Secret", "data": {"a": "b2xk", "same": "c2FtZQ=="}}
    after = {"kind": "Secret", "data": {"a": "bmV3", "same": "c2FtZQ=="}}
    diff = told(Change(Name("v1", "Secret", "n", "s"), before, after))
    assert "b2xk" not in str(diff) and "bmV3" not in str(diff)
    assert list(json.loads(diff["before"])["data"]) == ["a"]
    assert diff["before"] != diff["after"]
    assert diff["before_header"] == "Secret n/s"
    code = {"kind": "ConfigMap", "binaryData": {"x.pyz": "A" * 1000}, "data": {"plain": "shown"}}
    made = told(Change(Name("v1", "ConfigMap", "n", "c"), None, code))
    assert "AAAA" not in made["after"] and "shown" in made["after"] and made["before"] == ""


def test_the_servers_own_does_not_count() -> None:
    metadata = {"name": "x", "labels": {"a": "b"}}
    servers = {"uid": "1", "resourceVersion": "2", "generation": 3, "managedFields": [], "creationTimestamp": "now"}
    annotations = {"annotations": {"deployment.kubernetes.io/revision": "4"}}
    standing = {"kind": "Deployment", "metadata": {**metadata, **servers, **annotations}, "status": {"replicas": 1}}
    assert essence(standing) == {"kind": "Deployment", "metadata": metadata}
