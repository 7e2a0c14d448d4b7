# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _files
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    ABSENT,
    FileState,
    in_words,
    look,
    put_file,
    put_link,
    read,
    remove,
    remove_leftover,
)


def _own(mode: int = 0o640, label: str = "") -> FileState:
    return FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=mode, label=label)


def test_look_tells_file_link_absence_and_others_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.chmod(tmp_path / "file", 0o604)
    (tmp_path / "link").symlink_to("file")
    found = look(str(tmp_path / "file"))
    assert (found.kind, found.mode, found.uid) == ("file", 0o604, os.geteuid())
    assert found.sha256 == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert (look(str(tmp_path / "link")).kind, look(str(tmp_path / "link")).target) == ("link", "file")
    assert look(str(tmp_path / "none")) == ABSENT
    assert look(str(tmp_path / "file" / "below-a-file")) == ABSENT
    assert look(str(tmp_path)).kind == "other"


def test_states_survive_json(tmp_path: Path) -> None:
    state = FileState("file", sha256="ab", uid=1, gid=2, mode=0o640, label="system_u:object_r:etc_t:s0")
    assert FileState.from_json(state.to_json()) == state
    assert ABSENT.to_json() == {"kind": "absent"}


@pytest.mark.parametrize("value", [None, [], "file", {}, {"kind": "other"}, {"kind": "file", "mode": "0644"}])
def test_a_damaged_state_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="not the state of a file"):
        FileState.from_json(value)


def test_two_states_differ_by_content_owner_or_mode_but_not_by_label() -> None:
    state = FileState("file", sha256="a", uid=1, gid=1, mode=0o600, label="one")
    assert state.same_as(FileState("file", sha256="a", uid=1, gid=1, mode=0o600, label="two"))
    for other in (
        FileState("file", sha256="b", uid=1, gid=1, mode=0o600),
        FileState("file", sha256="a", uid=2, gid=1, mode=0o600),
        FileState("file", sha256="a", uid=1, gid=2, mode=0o600),
        FileState("file", sha256="a", uid=1, gid=1, mode=0o644),
        ABSENT,
    ):
        assert not state.same_as(other)
    assert not FileState("other").same_as(FileState("other"))


def test_put_file_gives_content_and_mode_whatever_the_umask(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    before = os.umask(0o077)
    try:
        put_file(path, b"new", _own(0o666))
    finally:
        os.umask(before)
    assert (read(path), look(path).mode) == (b"new", 0o666)
    assert os.listdir(tmp_path) == ["f"]


def test_put_file_replaces_by_rename_so_an_open_reader_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        put_file(str(path), b"new", _own())
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_leftover_of_a_killed_run_is_overwritten_and_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / ".f.colocation-new").symlink_to(elsewhere)  # not followed either
    put_file(str(path), b"new", _own())
    assert (path.read_bytes(), elsewhere.read_bytes()) == (b"new", b"precious")
    (tmp_path / ".f.colocation-new").write_bytes(b"half")
    remove_leftover(str(path))
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "f"]


def test_put_link_replaces_a_file_and_remove_is_content_with_absence(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    put_link(str(path), "/dev/null")
    assert os.readlink(path) == "/dev/null"
    remove(str(path))
    remove(str(path))
    assert look(str(path)) == ABSENT


def test_the_label_is_read_and_written_and_its_lack_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "f")
    labels: dict[str, bytes] = {}
    monkeypatch.setattr(os, "listxattr", lambda *a, **k: [])
    monkeypatch.setattr(os, "setxattr", lambda handle, name, value: labels.__setitem__(name, value))
    monkeypatch.setattr(os, "getxattr", lambda *a, **k: labels[_files.LABEL_ATTRIBUTE] + b"\0")
    put_file(path, b"x", _own(label="system_u:object_r:etc_t:s0"))
    assert look(path).label == "system_u:object_r:etc_t:s0"

    def unsupported(*args: object, **kwargs: object) -> bytes:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "getxattr", unsupported)
    monkeypatch.setattr(os, "setxattr", unsupported)
    put_file(path, b"y", _own(label="system_u:object_r:etc_t:s0"))
    assert (read(path), look(path).label) == (b"y", "")


def test_other_attributes_go_from_the_old_file_to_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no user attributes")
    put_file(str(path), b"new", _own())
    assert os.getxattr(path, "user.note") == b"kept"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The kernel's error of an open file names none."""

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError) as error:
        put_file(str(tmp_path / "a"), b"x", _own())
    assert in_words(error.value, "elsewhere") == f"{tmp_path}/a: No space left on device"


def test_an_error_in_words_never_names_nothing() -> None:
    assert in_words(OSError(errno.ENOSPC, "No space left on device"), "/var/lib/x") == (
        "/var/lib/x: No space left on device"
    )
    assert in_words(OSError("odd"), "/var/lib/x") == "/var/lib/x: odd"
