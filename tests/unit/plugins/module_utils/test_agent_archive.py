# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The same tree gives the same bytes, they come back as that tree, and nothing else is unpacked."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_archive import pack, unpack
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    Release,
    TreeError,
    describe,
    digest,
    hash_files,
)

FILES = {"colocation/one/__main__.py": b"1", "grpc/" + "long" * 40 + ".py": b"2", "empty": b"", "\u00e9": b"x" * 5000}


def plant(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def release_of(root: Path) -> Release:
    return describe(str(root), "0.1.0", "3.13", "x86_64")


def packed(root: Path, place: Path) -> bytes:
    pack(str(root), release_of(root), str(place))
    return place.read_bytes()


@given(st.permutations(sorted(FILES)), st.sampled_from([0o022, 0o077, 0o000]), st.integers(0, 2**31))
def test_bytes_depend_on_nothing_but_the_tree(order: list[str], umask: int, when: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        one = plant(place / "one", FILES)
        before = os.umask(umask)
        try:
            other = plant(place / "other", {name: FILES[name] for name in order})
            for path in other.rglob("*"):
                os.utime(path, (when, when))
            assert packed(one, place / "1") == packed(other, place / "2")
            assert unpack(str(place / "2"), str(place / "back")) == release_of(one)
        finally:
            os.umask(before)
        modes = {stat.S_IMODE(p.lstat().st_mode) for p in (place / "back").rglob("*") if p.is_file()}
        assert modes == {0o644}
        directories = [place / "back", *(path for path in (place / "back").rglob("*") if path.is_dir())]
        assert {stat.S_IMODE(path.lstat().st_mode) for path in directories} == {0o755}
        assert digest(hash_files(str(place / "back"))) == digest(hash_files(str(one)))


def test_bytecode_and_an_old_record_stay_behind(tmp_path: Path) -> None:
    one, other = plant(tmp_path / "one", FILES), plant(tmp_path / "other", FILES)
    plant(other, {"RELEASE.json": b"old", "grpc/__pycache__/a.cpython-313.pyc": b"x"})
    assert packed(one, tmp_path / "1") == packed(other, tmp_path / "2")


@given(st.data())
def test_of_a_cut_archive_never_half_a_tree_is_taken(data: st.DataObject) -> None:
    """What is missing at the very end may be padding; then the tree is whole."""
    with tempfile.TemporaryDirectory() as made:
        tree, archive, back = Path(made, "tree"), Path(made, "a"), Path(made, "back")
        whole = packed(plant(tree, FILES), archive)
        archive.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        try:
            unpack(str(archive), str(back))
        except TreeError:
            return
        assert hash_files(str(back)) == hash_files(str(tree))


def foreign(path: Path, *members: tarfile.TarInfo) -> str:
    with tarfile.open(path, mode="w:gz") as tar:
        for member in members:
            member.size = 1 if member.isreg() else 0
            tar.addfile(member, io.BytesIO(b"x"))
    return str(path)


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "a/../../x", "./x", "a//x", ".."])
def test_a_name_that_reaches_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TreeError, match="no plain file inside the tree"):
        unpack(foreign(tmp_path / "a", tarfile.TarInfo(name)), str(tmp_path / "back"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "back"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("a")
    member.type, member.linkname = kind, "/etc/passwd"
    with pytest.raises(TreeError, match="no plain file inside the tree"):
        unpack(foreign(tmp_path / "a", member), str(tmp_path / "back"))


def test_a_file_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="not a whole archive"):
        unpack(foreign(tmp_path / "a", tarfile.TarInfo("a"), tarfile.TarInfo("a")), str(tmp_path / "back"))


def test_an_archive_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="RELEASE.json can't be read"):
        unpack(foreign(tmp_path / "a", tarfile.TarInfo("a")), str(tmp_path / "back"))
