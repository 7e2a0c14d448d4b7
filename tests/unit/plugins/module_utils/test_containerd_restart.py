# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_restart import (
    NAME,
    Note,
    Now,
    is_due,
    note_for,
    read_active_since,
    read_note,
    remove_note,
    write_note,
)

NOTE = Note("old", 100.0, "boot")


@pytest.mark.parametrize(
    ("now", "effective", "due"),
    [
        pytest.param(Now(200.0, "boot", 50.0), "new", True, id="runs since before the write"),
        pytest.param(Now(200.0, "boot", 150.0), "new", False, id="was restarted"),
        pytest.param(Now(200.0, "boot", None), "new", True, id="is not active, or nobody knows"),
        pytest.param(Now(5.0, "later", 2.0), "new", False, id="the machine was booted"),
        pytest.param(Now(200.0, "boot", 50.0), "old", False, id="the config is back"),
    ],
)
def test_when_a_restart_is_due(now: Now, effective: str, due: bool) -> None:
    assert is_due(NOTE, now, effective) is due
    assert is_due(None, now, effective) is False


def test_a_second_change_keeps_what_containerd_runs_with() -> None:
    assert note_for(NOTE, Now(200.0, "boot", 50.0), "new") == Note("old", 200.0, "boot")
    assert note_for(NOTE, Now(200.0, "boot", 150.0), "new") == Note("new", 200.0, "boot")
    assert note_for(None, Now(200.0, "boot", 50.0), "new") == Note("new", 200.0, "boot")


@pytest.mark.parametrize(
    ("shown", "since"),
    [
        ("ActiveState=active\nActiveEnterTimestampMonotonic=1500000\n", 1.5),
        ("ActiveEnterTimestampMonotonic=1500000\nActiveState=inactive\n", None),
        ("ActiveState=active\nActiveEnterTimestampMonotonic=0\n", None),
        ("", None),
    ],
)
def test_since_when_it_runs(shown: str, since: float | None) -> None:
    assert read_active_since(shown) == since


def test_a_note_is_kept_and_removed(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert read_note(state) is None
    remove_note(state)
    write_note(state, NOTE)
    assert read_note(state) == NOTE
    (tmp_path / "state" / NAME).write_text("{")
    assert read_note(state) is None
    remove_note(state)
    assert list((tmp_path / "state").iterdir()) == []
