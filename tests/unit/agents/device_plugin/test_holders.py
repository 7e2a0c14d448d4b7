# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Who holds what: joined from two sources of which either may be short, late or gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.holders import GRANT_SECONDS, Held, Ledger, NoCheckpoint, join, read_checkpoint

MEMORY = "test.com/colocation-memory"


def kept(uid: str, *ids: str, container: str = "main") -> Held:
    return Held(MEMORY, container, ids, uid)


def listed(pod: str, *ids: str, container: str = "main") -> Held:
    return Held(MEMORY, container, ids, "", "batch", pod)


def always(_uid: str) -> bool:
    return True


def never(_uid: str) -> bool:
    return False


BOTH = Held(MEMORY, "main", ("CM-0-0",), "u1", "batch", "one")


@pytest.mark.parametrize(
    ("what", "found", "written", "before", "lives", "expected"),
    [
        ("both know it", [listed("one", "CM-0-0")], [kept("u1", "CM-0-0")], [], always, [BOTH]),
        ("just granted, not written yet", [listed("one", "CM-0-0")], [], [], always, [listed("one", "CM-0-0")]),
        ("the API is down after a restart", [], [kept("u1", "CM-0-0")], [BOTH], always, [BOTH]),
        (
            "only the checkpoint, and it never had a name",
            [],
            [kept("u1", "CM-0-0")],
            [],
            always,
            [kept("u1", "CM-0-0")],
        ),
        ("ended, and the checkpoint was not written since", [], [kept("u1", "CM-0-0")], [BOTH], never, []),
        ("no kubelet", None, [kept("u1", "CM-0-0")], [BOTH], always, [BOTH]),
        ("no list, and the checkpoint lags", None, [], [listed("one", "CM-0-0")], never, [listed("one", "CM-0-0")]),
        (
            "no list, and the checkpoint has it now",
            None,
            [kept("u1", "CM-0-0")],
            [listed("one", "CM-0-0")],
            never,
            [BOTH],
        ),
        ("nothing can be read", None, None, [BOTH], never, [BOTH]),
        ("the checkpoint can't be read", [], None, [BOTH], always, [BOTH]),
        ("it can't, and the pod is gone", [], None, [BOTH], never, []),
        ("it can't, and the list has it", [listed("one", "CM-0-0")], None, [BOTH], never, [BOTH]),
        ("gone from both", [], [], [BOTH], always, []),
        (
            "the block's next holder, while the last one is still written down",
            [listed("two", "CM-0-0")],
            [kept("u2", "CM-0-0"), kept("u1", "CM-0-0")],
            [],
            "u2".__eq__,
            [Held(MEMORY, "main", ("CM-0-0",), "u2", "batch", "two")],
        ),
        (
            "containers of one pod",
            [listed("one", "CM-0-0"), listed("one", "CM-0-1", container="side")],
            [kept("u1", "CM-0-0"), kept("u1", "CM-0-1", container="side")],
            [],
            never,
            [BOTH, Held(MEMORY, "side", ("CM-0-1",), "u1", "batch", "one")],
        ),
    ],
)
def test_join(
    what: str,
    found: list[Held] | None,
    written: list[Held] | None,
    before: list[Held],
    lives: Any,
    expected: list[Held],
) -> None:
    assert list(join(found, written, before, lives)) == expected, what


IDS = st.lists(st.integers(0, 9).map(lambda n: f"CM-0-{n}"), min_size=1, max_size=3, unique=True).map(tuple)
LISTED = st.lists(st.builds(lambda pod, ids: listed(pod, *ids), st.sampled_from("ab"), IDS), max_size=4)
KEPT = st.lists(st.builds(lambda uid, ids: kept(uid, *ids), st.sampled_from("xy"), IDS), max_size=4)


@given(LISTED, KEPT, st.frozensets(st.sampled_from("xy")))
def test_what_the_list_has_or_a_living_pod_has_written_down_is_never_lost(
    found: list[Held], written: list[Held], living: frozenset[str]
) -> None:
    held = {id for one in join(found, written, [], living.__contains__) for id in one.ids}
    assert {id for one in found for id in one.ids} <= held
    unmatched = [one for one in written if one.uid in living and not any(set(one.ids) & set(f.ids) for f in found)]
    assert {id for one in unmatched for id in one.ids} <= held


def entry(**changes: Any) -> dict[str, Any]:
    made = {"PodUID": "u1", "ContainerName": "main", "ResourceName": MEMORY, "DeviceIDs": {"-1": ["CM-0-0"]}}
    return {**made, "AllocResp": "", **changes}


def document(entries: Any) -> bytes:
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}).encode()


def test_a_checkpoint_is_read() -> None:
    several = entry(DeviceIDs={"0": ["CM-0-1", "CM-0-0"], "1": ["CM-0-1"]}, ContainerName="two")
    found = read_checkpoint(document([entry(), several, entry(ResourceName="gpu/x")]), {MEMORY})
    assert found == (kept("u1", "CM-0-0"), kept("u1", "CM-0-0", "CM-0-1", container="two"))
    assert read_checkpoint(document(None), {MEMORY}) == ()
    assert read_checkpoint(document([entry(DeviceIDs=["CM-0-0"])]), {MEMORY}) == (kept("u1", "CM-0-0"),)
    assert read_checkpoint(document([entry(DeviceIDs=None)]), {MEMORY}) == (kept("u1"),)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"Data": 1}', b'{"Data": {}}', b"\xff", b"[" * 100_000]
    + [document([1]), document([{}]), document([entry(PodUID=1)]), document([entry(DeviceIDs={"0": 1})])]
    + [document([entry(DeviceIDs={"0": [1]})]), document("text"), document([entry(DeviceIDs=1)])],
)
def test_what_is_no_checkpoint_is_refused(content: bytes) -> None:
    with pytest.raises(NoCheckpoint):
        read_checkpoint(content, {MEMORY})


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(document))
def test_no_text_makes_another_error(content: bytes) -> None:
    try:
        read_checkpoint(content, {MEMORY})
    except NoCheckpoint:
        pass


def test_a_grant_is_held_until_it_is_seen_or_its_time_is_over() -> None:
    ledger = Ledger()
    ledger.grant(MEMORY, ["CM-0-0", "CM-0-1"], 100.0)
    assert ledger.ids(MEMORY) == {"CM-0-0", "CM-0-1"}
    ledger.update([listed("one", "CM-0-0")], [], never, 101.0)
    assert ledger.ids(MEMORY) == {"CM-0-0", "CM-0-1"}
    ledger.update([], [], never, 102.0)
    assert ledger.ids(MEMORY) == {"CM-0-1"}  # the first was seen, so the kubelet's word counts for it
    ledger.update([], [], never, 100.0 + GRANT_SECONDS)
    assert ledger.ids(MEMORY) == frozenset()


def test_a_device_that_is_granted_anew_is_not_seen_with_the_one_who_had_it_before() -> None:
    """Its pod has ended, and nobody wrote that down yet."""
    ledger, before = Ledger(), kept("u1", "CM-0-0")
    ledger.update(None, [before], always, 1.0)
    ledger.grant(MEMORY, ["CM-0-0"], 2.0)
    ledger.update(None, [before], always, 2.1)
    assert ledger.granted_since(2.0)
    ledger.update(None, [before, kept("u2", "CM-0-0")], always, 2.2)
    assert not ledger.granted_since(2.0)
    ledger.grant(MEMORY, ["CM-0-0"], 3.0)
    ledger.update([listed("one", "CM-0-0")], [before], always, 4.1)
    assert not ledger.granted_since(3.0)  # the list is asked when nothing is under way, and knows


def test_a_grant_during_an_update_is_not_lost() -> None:
    ledger = Ledger()
    ledger.grant(MEMORY, ["CM-0-0"], 100.5)
    ledger.update([], [], never, 100.0)  # began before it
    assert ledger.ids(MEMORY) == {"CM-0-0"}
    assert ledger.granted_since(100.2)
    assert not ledger.granted_since(100.6)


def test_the_same_holders_are_the_same_object() -> None:
    ledger = Ledger()
    ledger.update([listed("one", "CM-0-0")], [], never, 1.0)
    first = ledger.ids(MEMORY)
    ledger.update([listed("one", "CM-0-0")], [kept("u1", "CM-0-0")], never, 2.0)
    assert ledger.ids(MEMORY) is first
    assert ledger.holders(MEMORY) == (BOTH,)
    assert ledger.holders("gpu/x") == ()
