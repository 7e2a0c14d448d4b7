# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The decisions, by tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import ABSENT, FileState
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import Setting
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Entry
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore import (
    decide_directory,
    decide_file,
    decide_module,
    decide_package,
    decide_swap,
    decide_sysctl,
    decide_unit,
    in_order,
    malformed,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

ORIGINAL = FileState("file", sha256="original", mode=0o644)
OURS = FileState("file", sha256="ours", mode=0o644)
EARLIER = FileState("file", sha256="earlier", mode=0o644)
THEIRS = FileState("file", sha256="theirs", mode=0o644)
ESSENTIAL = ("containerd.service", "kubelet.service")


def _file(before: FileState = ORIGINAL, after: FileState = OURS, **fields: object) -> Entry:
    entry = Entry("file", "/etc/f", before.to_json(), after.to_json(), "role")
    return replace(entry, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "entry", "action"),
    [
        (ORIGINAL, _file(), "nothing"),
        (OURS, _file(), "restore"),
        (EARLIER, _file(standing=EARLIER.to_json()), "restore"),
        (EARLIER, _file(), "keep"),
        (THEIRS, _file(), "keep"),
        (ABSENT, _file(), "keep"),
        (ABSENT, _file(ABSENT), "nothing"),
        (ABSENT, _file(after=ABSENT), "restore"),
        (replace(OURS, mode=0o600), _file(), "keep"),
        (replace(OURS, uid=5), _file(), "keep"),
        (replace(OURS, label="other_t"), _file(), "restore"),
        (OURS, _file(mixed=True), "keep"),
        (ORIGINAL, _file(mixed=True), "nothing"),
        (FileState("link", target="/dev/null"), _file(), "keep"),
    ],
)
def test_a_file_goes_back_only_from_what_is_ours(now: FileState, entry: Entry, action: str) -> None:
    decision = decide_file(entry, now, "", "", False)
    assert decision.action == action
    assert decision.forget == (action in ("restore", "nothing"))
    assert bool(decision.reason) == (action == "keep")


def test_the_reason_says_what_differs() -> None:
    assert "edited" in decide_file(_file(), THEIRS, "", "", False).reason
    assert "mode is 0600, ours was 0644" in decide_file(_file(), replace(OURS, mode=0o600), "", "", False).reason
    assert "owner is 5:0" in decide_file(_file(), replace(OURS, uid=5), "", "", False).reason
    assert "nothing is there" in decide_file(_file(), ABSENT, "", "", False).reason
    link = FileState("link", target="/a")
    assert "ours was to /b" in decide_file(_file(after=replace(link, target="/b")), link, "", "", False).reason


def test_a_hazard_is_refused_until_forced_and_a_damaged_copy_is_a_problem_even_then() -> None:
    refused = decide_file(_file(), OURS, "", "swap comes back", False)
    assert (refused.action, refused.reason, refused.forget) == ("refuse", "swap comes back", False)
    assert decide_file(_file(), OURS, "", "swap comes back", True).action == "restore"
    assert decide_file(_file(), OURS, "copy is damaged", "", True).action == "problem"
    assert decide_file(_file(), THEIRS, "copy is damaged", "", True).action == "keep"


def test_only_an_empty_directory_goes() -> None:
    assert [decide_directory(now).action for now in ("empty", "full", "absent", "other")] == [
        "restore",
        "keep",
        "nothing",
        "nothing",
    ]


def _unit(name: str, before: tuple[bool, bool, bool | str], after: tuple[bool, bool, bool | str]) -> Entry:
    keys = ("active", "enabled", "masked")
    return Entry("unit", name, dict(zip(keys, before, strict=True)), dict(zip(keys, after, strict=True)), "role")


def _now(name: str, active: bool, enabled: bool, masked: bool = False) -> UnitState:
    return UnitState(
        name,
        "masked" if masked else "loaded",
        "active" if active else "inactive",
        enablement="masked" if masked else "enabled" if enabled else "disabled",
        beneath_mask=masked,
        enabled_beneath_mask=masked and enabled,
    )


@pytest.mark.parametrize(
    ("before", "after", "now", "steps"),
    [
        ((False, False, False), (True, True, False), (True, True, False), ("disable", "stop")),
        ((False, False, False), (True, True, False), (True, False, False), ("stop",)),
        ((False, False, False), (True, True, False), (False, False, False), ()),
        ((True, True, False), (False, False, False), (False, False, False), ("enable", "start")),
        ((True, False, False), (True, True, False), (False, True, False), ("disable",)),
        ((False, False, True), (True, True, False), (True, True, False), ("disable", "stop", "mask")),
        ((False, False, "runtime"), (False, False, False), (False, False, False), ("mask-runtime",)),
        ((True, True, False), (False, True, True), (False, True, True), ("unmask", "start")),
        ((True, True, False), (False, True, True), (False, True, False), ("start",)),
    ],
)
def test_a_unit_goes_back_field_by_field(
    before: tuple[bool, bool, bool | str],
    after: tuple[bool, bool, bool | str],
    now: tuple[bool, bool, bool],
    steps: tuple[str, ...],
) -> None:
    decision = decide_unit(_unit("a.service", before, after), _now("a.service", *now), ESSENTIAL, False)
    assert decision.steps == steps
    assert decision.action == ("restore" if steps else "nothing")


@pytest.mark.parametrize("name", ESSENTIAL)
@pytest.mark.parametrize(
    "before", [(False, True, False), (True, False, False), (True, True, True), (False, False, "runtime")]
)
def test_what_the_kubelet_needs_is_not_taken_away_unless_forced(
    name: str, before: tuple[bool, bool, bool | str]
) -> None:
    entry = _unit(name, before, (True, True, False))
    now = _now(name, True, True)
    refused = decide_unit(entry, now, ESSENTIAL, False)
    assert (refused.action, refused.forget) == ("refuse", False)
    assert decide_unit(entry, now, ESSENTIAL, True).action == "restore"
    assert decide_unit(entry, now, (), False).action == "restore"


@pytest.mark.parametrize(
    "name", ["dev-vda3.swap", "swap.target", "systemd-zram-setup@zram0.service", "zramswap.service"]
)
def test_a_unit_that_brings_swap_stays_off_unless_forced(name: str) -> None:
    entry = _unit(name, (True, True, False), (False, True, True))
    now = _now(name, False, True, masked=True)
    assert decide_unit(entry, now, ESSENTIAL, False).action == "refuse"
    assert decide_unit(entry, now, ESSENTIAL, True).steps == ("unmask", "start")


def test_a_unit_that_is_gone_or_masked_by_somebody_is_left() -> None:
    entry = _unit("a.service", (True, True, False), (False, False, False))
    gone = decide_unit(entry, UnitState("a.service"), ESSENTIAL, False)
    assert (gone.action, gone.forget) == ("keep", True)
    masked = decide_unit(entry, _now("a.service", False, False, masked=True), ESSENTIAL, False)
    assert (masked.action, masked.forget) == ("keep", False)
    assert "somebody masked it" in masked.reason


@pytest.mark.parametrize(
    ("now", "configured", "action", "forget"),
    [
        ("1", None, "restore", True),
        ("0", None, "nothing", True),
        (None, None, "nothing", True),
        ("2", None, "keep", False),
        ("1", Setting("/etc/sysctl.d/50-other.conf", "a/b", "1"), "keep", True),
        ("1", Setting("/etc/sysctl.d/50-other.conf", "a/b", "0"), "restore", True),
    ],
)
def test_a_sysctl(now: str | None, configured: Setting | None, action: str, forget: bool) -> None:
    decision = decide_sysctl(Entry("sysctl", "a.b", "0", "1", "role"), now, configured)
    assert (decision.action, decision.forget) == (action, forget)


def test_a_module_stays_loaded_and_is_reported_once() -> None:
    assert (decide_module(True).action, decide_module(True).forget) == ("keep", True)
    assert decide_module(False).action == "nothing"


def test_swap_is_refused_until_forced() -> None:
    entry = Entry("swap", "/swapfile", {"active": True}, {"active": False}, "role")
    assert decide_swap(entry, False, True, False).action == "refuse"
    assert decide_swap(entry, False, True, True).action == "restore"
    assert decide_swap(entry, True, True, False).action == "nothing"
    assert decide_swap(entry, False, False, True).action == "keep"


def test_a_package_is_reported_and_removed_only_when_told_so() -> None:
    entry = Entry("package", "containerd", {"installed": False}, {"installed": True}, "role")
    assert decide_package(entry, True, False, True, True).action == "keep"
    assert decide_package(entry, True, True, True, False).action == "refuse"
    assert decide_package(entry, True, True, True, True).action == "restore"
    assert decide_package(entry, True, True, False, False).action == "restore"
    assert decide_package(entry, False, True, True, True).action == "nothing"


def test_the_order_stops_units_before_their_files_go_and_starts_others_after() -> None:
    entries = [
        Entry("swap", "/dev/a", {"active": True}, {"active": False}, "role", 1),
        replace(_unit("up.service", (True, True, False), (False, False, False)), order=2),
        replace(_unit("ours.service", (False, False, False), (True, True, False)), order=3),
        Entry("directory", "/etc/a", {"kind": "absent"}, {"kind": "directory"}, "role", 4),
        Entry("directory", "/etc/a/b", {"kind": "absent"}, {"kind": "directory"}, "role", 5),
        _file(name="/etc/a/one", order=6),
        _file(name="/etc/a/two", order=7),
        _file(name="/etc/containerd/config.toml", order=1),
        Entry("sysctl", "a.b", "0", "1", "role", 8),
    ]
    assert [entry.name for entry in in_order(entries)] == [
        "ours.service",
        "/etc/containerd/config.toml",
        "/etc/a/two",
        "/etc/a/one",
        "/etc/a/b",
        "/etc/a",
        "up.service",
        "a.b",
        "/dev/a",
    ]


def test_two_owners_of_one_unit_are_undone_newest_first() -> None:
    first = replace(_unit("a.service", (False, False, False), (True, True, False)), owner="one", order=1)
    second = replace(_unit("a.service", (True, True, False), (False, True, True)), owner="two", order=2)
    assert [entry.owner for entry in in_order([first, second])] == ["two", "one"]


@pytest.mark.parametrize(
    "entry",
    [
        Entry("file", "relative", {"kind": "absent"}, {"kind": "absent"}, "role"),
        Entry("unit", "a.service", None, {"active": True}, "role"),
        Entry("swap", "/dev/a", {"active": True}, "off", "role"),
        Entry("sysctl", "a.b", 1, "2", "role"),
    ],
)
def test_entries_with_unusable_values_are_told(entry: Entry) -> None:
    assert malformed(entry)
