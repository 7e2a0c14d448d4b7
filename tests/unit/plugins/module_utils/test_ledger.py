# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import look
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import FileChange, Ledger, LedgerError
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import killed_at


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "state"), "role")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "f.conf"


def _files_of(ledger: Ledger) -> list[str]:
    return sorted(os.listdir(ledger.directory)) if os.path.isdir(ledger.directory) else []


def test_the_original_is_kept_only_the_first_time(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"original")
    os.chmod(path, 0o640)
    first = ledger.write_file(str(path), b"one")
    second = ledger.write_file(str(path), b"two")
    assert (first.changed, first.before, first.after) == (True, b"original", b"one")
    assert (second.changed, second.before, second.after) == (True, b"one", b"two")
    (entry,) = ledger.entries()
    assert (entry.kind, entry.name, entry.owner) == ("file", str(path), "role")
    assert (entry.before["mode"], entry.after) == (0o640, look(str(path)).to_json())
    assert ledger.original(entry) == b"original"
    assert path.read_bytes() == b"two"
    assert look(str(path)).mode == 0o640


def test_an_equal_file_is_left_and_not_recorded(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"same")
    inode = path.stat().st_ino
    assert not ledger.write_file(str(path), b"same").changed
    assert (path.stat().st_ino, _files_of(ledger)) == (inode, [])


def test_a_new_file_gets_the_mode_asked_for_or_0644(ledger: Ledger, path: Path) -> None:
    ledger.write_file(str(path), b"x", mode=0o600)
    assert look(str(path)).mode == 0o600
    ledger.write_file(str(path) + "2", b"x")
    assert look(str(path) + "2").mode == 0o644


def test_a_mode_alone_is_a_change_with_a_diff_of_the_mode(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"x")
    os.chmod(path, 0o644)
    change = ledger.write_file(str(path), b"x", mode=0o600)
    assert change.changed
    assert (change.diff()["before"], change.diff()["after"]) == ("mode: 0644\n", "mode: 0600\n")
    assert look(str(path)).mode == 0o600


def test_check_mode_computes_and_touches_nothing(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"original")
    ledger = Ledger(str(tmp_path / "state"), "role", check_mode=True)
    assert ledger.write_file(str(path), b"new").diff()["after"] == "new"
    assert ledger.make_link(str(path), "/dev/null").changed
    assert ledger.remove_file(str(path)).changed
    ledger.note("sysctl", "a.b", "0", "1")
    assert sorted(os.listdir(tmp_path)) == ["etc"]
    assert path.read_bytes() == b"original"


def test_a_link_is_followed_and_said_so_or_replaced(ledger: Ledger, path: Path) -> None:
    real = path.with_name("real")
    real.write_bytes(b"original")
    path.symlink_to("real")
    change = ledger.write_file(str(path), b"new")
    assert (change.path, real.read_bytes(), path.is_symlink()) == (str(real), b"new", True)
    assert str(real) in change.followed
    replaced = ledger.write_file(str(path), b"own", follow=False)
    assert (replaced.followed, path.is_symlink(), real.read_bytes()) == ("", False, b"new")
    assert {entry.before["kind"] for entry in ledger.entries()} == {"file", "link"}


def test_missing_directories_are_made_and_recorded(ledger: Ledger, tmp_path: Path) -> None:
    ledger.write_file(str(tmp_path / "a" / "b" / "f"), b"x")
    assert [entry.name for entry in ledger.entries() if entry.kind == "directory"] == [
        str(tmp_path / "a"),
        str(tmp_path / "a" / "b"),
    ]


@pytest.mark.parametrize("verb", ["write_file", "make_link", "remove_file"])
def test_a_directory_is_never_replaced(ledger: Ledger, tmp_path: Path, verb: str) -> None:
    (tmp_path / "d").mkdir()
    arguments: dict[str, list[object]] = {"write_file": [b"x"], "make_link": ["/dev/null"], "remove_file": []}
    with pytest.raises(LedgerError, match="neither a file nor a link"):
        getattr(ledger, verb)(str(tmp_path / "d"), *arguments[verb])


def test_content_made_from_somebody_elses_edit_is_marked_until_it_is_ours_again(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"original")
    ledger.write_file(str(path), b"ours")
    path.write_bytes(b"ours, edited")
    ledger.write_file(str(path), b"ours, edited, merged")
    assert [entry.mixed for entry in ledger.entries()] == [True]
    ledger.write_file(str(path), b"ours, edited, merged again")
    assert [entry.mixed for entry in ledger.entries()] == [True]
    ledger.write_file(str(path), b"all ours", whole=True)
    assert [entry.mixed for entry in ledger.entries()] == [False]


def test_notes_keep_the_first_before_and_the_last_after(ledger: Ledger) -> None:
    ledger.note("sysctl", "a.b", "0", "1")
    ledger.note("sysctl", "a.b", "1", "2")
    (entry,) = ledger.entries()
    assert (entry.before, entry.after, entry.standing) == ("0", "2", "1")


def test_a_note_of_no_change_is_no_entry(ledger: Ledger) -> None:
    ledger.note("unit", "a.service", {"active": True}, {"active": True})
    assert ledger.entries() == []


def test_a_field_that_we_had_not_changed_yet_gets_its_before_when_we_do(ledger: Ledger) -> None:
    ledger.note("unit", "a.service", {"active": False, "enabled": False}, {"active": False, "enabled": True})
    # somebody starts it; then we stop it
    ledger.note("unit", "a.service", {"active": True, "enabled": True}, {"active": False, "enabled": True})
    (entry,) = ledger.entries()
    assert entry.before == {"active": True, "enabled": False}


def test_owners_do_not_see_each_others_originals(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"original")
    first, second = Ledger(str(tmp_path / "s"), "one"), Ledger(str(tmp_path / "s"), "two")
    first.write_file(str(path), b"by one")
    second.write_file(str(path), b"by two")
    entries = second.entries()
    assert [(entry.owner, second.original(entry)) for entry in entries] == [("one", b"original"), ("two", b"by one")]


def test_the_ledger_is_for_its_owner_only(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"secret")
    ledger.write_file(str(path), b"new")
    assert look(ledger.directory).mode == 0o700
    assert {look(os.path.join(ledger.directory, name)).mode for name in _files_of(ledger)} == {0o600}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 9}', b"\xff\x00"])
def test_a_damaged_entry_is_reported_and_never_overwritten(ledger: Ledger, path: Path, damage: bytes) -> None:
    path.write_bytes(b"original")
    ledger.write_file(str(path), b"ours")
    (name,) = [name for name in _files_of(ledger) if name.endswith(".json")]
    Path(ledger.directory, name).write_bytes(damage)
    assert ledger.entries() == []
    assert len(ledger.problems) == 1
    assert name in ledger.problems[0]
    ledger.write_file(str(path), b"ours, next version")
    kept = [Path(ledger.directory, file).read_bytes() for file in _files_of(ledger)]
    assert b"original" in kept
    assert [entry.name for entry in ledger.entries()] == [str(path)]
    assert any("set aside" in problem for problem in ledger.problems)


def test_an_entry_with_a_damaged_file_state_counts_as_damaged(ledger: Ledger, path: Path) -> None:
    ledger.write_file(str(path), b"ours")
    entry_file = Path(ledger.directory, _files_of(ledger)[0])
    value = json.loads(entry_file.read_text())
    value["before"] = {"kind": "elephant"}
    entry_file.write_text(json.dumps(value))
    assert ledger.entries() == []
    assert "elephant" in ledger.problems[0]


def test_a_damaged_copy_is_not_given_out(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"original")
    ledger.write_file(str(path), b"ours")
    (entry,) = ledger.entries()
    Path(ledger.original_path(entry)).write_bytes(b"orig")
    with pytest.raises(ValueError, match="is not what was kept"):
        ledger.original(entry)
    os.unlink(ledger.original_path(entry))
    with pytest.raises(ValueError, match="is missing"):
        ledger.original(entry)


def test_forget_and_sweep_leave_nothing(ledger: Ledger, path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"original")
    ledger.write_file(str(path), b"ours")
    Path(ledger.directory, "file.orphan.00.original").write_bytes(b"copy of a killed run")
    Path(ledger.directory, ".half.colocation-new").write_bytes(b"half")
    for entry in ledger.entries():
        ledger.forget(entry)
    ledger.sweep()
    assert sorted(os.listdir(tmp_path)) == ["etc"]


def test_sweep_takes_broken_files_that_are_put_back_and_no_others(ledger: Ledger, tmp_path: Path) -> None:
    kept = Path(ledger.directory).parent / "kept"
    for owner in ("containerd", "kubelet"):
        (kept / owner).mkdir(parents=True)
        (kept / owner / "broken").write_bytes(b"the only copy")
    ledger.sweep()
    assert [path.name for path in kept.iterdir()] == ["kubelet"]
    assert (kept / "kubelet/broken").read_bytes() == b"the only copy"
    (kept / "kubelet/broken").unlink()
    (kept / "kubelet").rmdir()
    ledger.sweep()
    assert os.listdir(tmp_path) == []


def test_sweep_keeps_what_belongs_to_an_entry(ledger: Ledger, path: Path) -> None:
    path.write_bytes(b"original")
    ledger.write_file(str(path), b"ours")
    before = _files_of(ledger)
    ledger.sweep()
    assert _files_of(ledger) == before


@pytest.mark.parametrize("original", [None, b"original"])
def test_a_kill_at_any_call_leaves_old_or_new_and_a_second_try_gets_there(
    tmp_path: Path, original: bytes | None
) -> None:
    number, finished = 0, False
    while not finished:
        number += 1
        home = tmp_path / str(number)
        (home / "etc").mkdir(parents=True)
        path = home / "etc" / "f"
        if original is not None:
            path.write_bytes(original)
        ledger = Ledger(str(home / "state"), "role")
        with killed_at(number) as calls:
            ledger.write_file(str(path), b"ours")
        finished = len(calls) < number
        standing = path.read_bytes() if path.exists() else None
        assert standing in (original, b"ours")
        if standing == b"ours":  # then its origin is on disk already
            assert [entry.before["kind"] for entry in ledger.entries()] == ["absent" if original is None else "file"]
        ledger.write_file(str(path), b"ours")
        (entry,) = ledger.entries()
        assert path.read_bytes() == b"ours"
        if original is not None:
            assert ledger.original(entry) == original
        assert os.listdir(home / "etc") == ["f"]
    assert number > 15  # the kills did happen inside


def test_binary_content_is_named_in_the_diff_not_shown() -> None:
    change = FileChange("/f", True, b"\xff\xfe", None)
    assert change.diff()["before"].startswith("(binary: 2 bytes, sha256 ")
    assert change.diff()["after"] == ""
