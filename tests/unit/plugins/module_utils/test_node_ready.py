# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When a node counts as ready."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import judge, seconds

SINCE = 1_800_000_000.0
AFTER = "2027-01-15T08:00:01.000000Z"
BEFORE = "2027-01-15T07:59:59.000000Z"


def node(status: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": "m"}
    return {"status": {"conditions": [condition]}}


def lease(time: str) -> dict[str, Any]:
    return {"spec": {"renewTime": time}}


def test_ready_when_it_says_so_now() -> None:
    assert judge(node("True"), lease(AFTER), SINCE).ready


def test_an_old_word_does_not_count() -> None:
    found = judge(node("True"), lease(BEFORE), SINCE)
    assert not found.ready
    assert BEFORE in found.reason


def test_a_reason_is_given() -> None:
    assert judge(node("False"), lease(AFTER), SINCE).reason == "KubeletNotReady: m"
    assert "no Ready condition" in judge({}, lease(AFTER), SINCE).reason
    assert "never" in judge(node("True"), {}, SINCE).reason


@given(st.text())
def test_any_text_is_a_time_or_none(text: str) -> None:
    assert seconds(text) is None or isinstance(seconds(text), float)


def test_times_of_the_api() -> None:
    assert seconds("2027-01-15T08:00:00Z") == SINCE
    assert seconds("2027-01-15T08:00:00.5+00:00") == SINCE + 0.5
