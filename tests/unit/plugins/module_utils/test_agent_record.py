# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_decide import (
    HEALTHY,
    SWITCHING,
    Previous,
    Record,
    Setup,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import (
    Busy,
    RecordStore,
    _parse,
    _values,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import digest

SETUP = Setup("1-a", "c", "u")
RECORD = Record(SWITCHING, SETUP, Previous(replace(SETUP, release="0-b"), True, False, 0o600, 0o644), True)


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(str(tmp_path / "state"), "device_plugin")


def test_the_record_has_the_form_that_others_read(store: RecordStore) -> None:
    store.save(RECORD)
    document = json.loads(Path(store.path).read_text())
    assert document["phase"] == "switching"
    assert document["wanted"] == {"release": "1-a", "config_sha256": "c", "unit_sha256": "u"}
    assert document["previous"]["release"] == "0-b"
    assert store.read() == RECORD


setups = st.builds(Setup, st.text(), st.text(), st.text())
modes = st.integers(0, 0o777)
previous = st.none() | st.builds(Previous, setups, st.booleans(), st.booleans(), modes, modes)


@given(st.builds(Record, st.sampled_from([SWITCHING, HEALTHY]), setups, previous, st.booleans()))
def test_what_is_written_is_read(record: Record) -> None:
    assert _parse(json.loads(json.dumps(_values(record)))) == record


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1, "phase": "x"}', '"version"'])
def test_a_damaged_record_is_none(content: str, store: RecordStore) -> None:
    store.save(RECORD)
    Path(store.path).write_text(content)
    assert store.read() is None
    assert store.exists()


def test_copies_are_private_and_checked(store: RecordStore) -> None:
    store.keep("config", b"old")
    store.save(RECORD)
    files = sorted(Path(store.directory).iterdir())
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
    assert Path(store.directory).stat().st_mode & 0o777 == 0o700
    assert store.kept("config", digest(b"old")) == b"old"
    with pytest.raises(ValueError, match="missing or damaged"):
        store.kept("config", digest(b"other"))
    store.keep("config", None)
    with pytest.raises(ValueError, match="missing or damaged"):
        store.kept("config", digest(b"old"))
    store.remove()
    assert not Path(store.directory).exists()
    store.remove()


def test_two_agents_share_the_directory(store: RecordStore, tmp_path: Path) -> None:
    other = RecordStore(str(tmp_path / "state"), "cri_proxy")
    store.save(RECORD)
    other.save(RECORD)
    store.remove()
    assert other.read() == RECORD


def test_one_run_at_a_time(store: RecordStore, tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    other = RecordStore(str(tmp_path / "state"), "cri_proxy")
    with (
        store.locked(1),
        pytest.raises(Busy, match="another run has worked .* for 3 s"),
        other.locked(3, lambda: now[0], sleep),
    ):
        raise AssertionError("two runs at once")
    assert now[0] >= 3
    with other.locked(0):
        pass


def test_a_lock_on_a_directory_that_was_removed_counts_for_nothing(store: RecordStore) -> None:
    with store.locked(1):
        shutil.rmtree(store.directory)
        with store.locked(1):  # the holder has removed everything and is about to end
            assert Path(store.directory).is_dir()
