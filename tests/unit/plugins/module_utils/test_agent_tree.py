# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The hash of a tree says what is in it and nothing else, and what it leaves out is caught otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    Release,
    TreeError,
    agents,
    bytecode_digest,
    describe,
    digest,
    faults,
    hash_files,
)

# The command of the module's docstring and the role's README.
BY_HAND = (
    "find . -type f ! -path '*/__pycache__/*' ! -path ./RELEASE.json -print0 | LC_ALL=C sort -z | "
    "xargs -0 sha256sum | sha256sum"
)
NAMES = st.text("abz.-_ é", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.dictionaries(PATHS, st.binary(max_size=20), min_size=1, max_size=8).filter(
    lambda files: not any(a != b and b.startswith(a + "/") for a in files for b in files)
)


@contextmanager
def tree(files: dict[str, bytes]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made, "tree")
        root.mkdir()
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        yield root


def hash_of(root: Path) -> str:
    return digest(hash_files(str(root)))


@given(CONTENTS, st.randoms(use_true_random=False), st.integers(0, 2**31), st.sampled_from([0o600, 0o640, 0o755]))
def test_order_times_and_modes_are_no_part_of_it(files: dict[str, bytes], random: Any, when: int, mode: int) -> None:
    shuffled = list(files.items())
    random.shuffle(shuffled)
    with tree(files) as one, tree(dict(shuffled)) as other:
        for path in other.rglob("*"):
            if path.is_file():
                path.chmod(mode)
            os.utime(path, (when, when))
        assert hash_of(one) == hash_of(other)


@given(CONTENTS, st.data())
def test_any_change_of_a_file_is_seen(files: dict[str, bytes], data: st.DataObject) -> None:
    with tree(files) as root:
        before = hash_of(root)
        victim = root / data.draw(st.sampled_from(sorted(files)))
        change = data.draw(st.sampled_from(["append", "remove", "rename", "add"]))
        if change == "append":
            victim.write_bytes(victim.read_bytes() + b"x")
        elif change == "remove":
            victim.unlink()
        elif change == "rename":
            victim.rename(victim.with_name(victim.name + "x"))
        else:
            (root / "added").touch()
        assert hash_of(root) != before


@given(CONTENTS)
def test_a_shell_computes_the_same(files: dict[str, bytes]) -> None:
    with tree(files) as root:
        (root / "RELEASE.json").write_text("{}")
        (root / "__pycache__").mkdir()
        (root / "__pycache__" / "a.pyc").touch()
        said = subprocess.run(["bash", "-c", BY_HAND], cwd=root, capture_output=True, text=True, check=True)
        assert said.stdout.split()[0] == hash_of(root)


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "\x1b[31m", "a\udcff"])
def test_a_strange_name_is_refused(tmp_path: Path, name: str) -> None:
    """Otherwise one file could pass for two."""
    (tmp_path / name).touch()
    with pytest.raises(TreeError, match="strange name"):
        hash_files(str(tmp_path))


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(TreeError, match="neither a file nor a directory"):
        hash_files(str(tmp_path))


FILES = {
    "colocation/__init__.py": "1",
    "colocation/common/__main__.py": "2",  # never an agent
    "colocation/one/__main__.py": "3",
    "colocation/one/core.py": "4",
    "colocation/two/__main__.py": "5",
    "colocation/three.py": "6",
    "grpc/__init__.py": "7",
}


@pytest.mark.parametrize(
    ("changed", "touched"),
    [
        ("colocation/one/core.py", {"one"}),
        ("colocation/one/new.py", {"one"}),
        ("colocation/two/__main__.py", {"two"}),
        ("colocation/common/__main__.py", {"one", "two"}),
        ("colocation/three.py", {"one", "two"}),
        ("grpc/__init__.py", {"one", "two"}),
        ("new.py", {"one", "two"}),
    ],
)
def test_an_agents_hash_changes_with_what_it_may_run(changed: str, touched: set[str]) -> None:
    before, after = agents(FILES), agents({**FILES, changed: "other"})
    assert {name for name in before if before[name] != after[name]} == touched
    assert set(before) == {"one", "two"}


@pytest.fixture
def installed(tmp_path: Path) -> tuple[Path, Release]:
    root = tmp_path / "release"
    (root / "colocation" / "one" / "__pycache__").mkdir(parents=True)
    (root / "colocation" / "one" / "__main__.py").write_text("1")
    (root / "colocation" / "one" / "__pycache__" / "__main__.cpython-313.pyc").write_text("code")
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    release = describe(str(root), "0.1.0", "3.13", "x86_64")
    return root, replace(release, bytecode_sha256=bytecode_digest(str(root), "3.13"))


def test_a_release_as_it_was_installed_has_no_fault(installed: tuple[Path, Release]) -> None:
    root, release = installed
    assert release.id == f"0.1.0-{release.tree_sha256[:12]}"
    assert (release.files, release.bytes) == (1, 1)
    (root / "RELEASE.json").write_text("{}")
    (root / "colocation" / "one" / "__pycache__" / "__main__.cpython-312.pyc").write_text("of a Python called by hand")
    (root / "colocation" / "__pycache__").mkdir(mode=0o755)
    assert faults(str(root), release, os.geteuid()) == ""


@pytest.mark.parametrize(
    ("name", "content", "mode", "fault"),
    [
        ("colocation/one/__main__.py", "2", 0o644, "its files are not what was installed"),
        ("sitecustomize.py", "", 0o644, "its files are not what was installed"),
        ("colocation/one/__pycache__/__main__.cpython-313.pyc", "evil", 0o644, "its bytecode is not what was made"),
        ("colocation/__pycache__/__init__.cpython-313.pyc", "evil", 0o644, "its bytecode is not what was made"),
        ("colocation/one/__main__.py", "1", 0o664, "others may write to colocation/one/__main__.py"),
        ("colocation/one/__main__.py", "1", 0o646, "others may write to colocation/one/__main__.py"),
    ],
)
def test_what_was_tampered_with_is_found(
    installed: tuple[Path, Release], name: str, content: str, mode: int, fault: str
) -> None:
    root, release = installed
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(content)
    (root / name).chmod(mode)
    assert faults(str(root), release, os.geteuid()).startswith(fault)


def test_another_owner_is_found(installed: tuple[Path, Release]) -> None:
    root, release = installed
    assert faults(str(root), release, os.geteuid() + 1) == "others may write to ."


def test_a_release_that_is_gone_is_a_fault(installed: tuple[Path, Release]) -> None:
    root, release = installed
    shutil.rmtree(root)
    assert "No such file" in faults(str(root), release, os.geteuid())


def test_a_record_comes_back(installed: tuple[Path, Release]) -> None:
    release = installed[1]
    assert Release.from_json(release.to_json()) == release
    assert Release.from_json({**release.to_json(), "of a later version": 1}) == release


@pytest.mark.parametrize("value", [None, [], {}, {"id": 1}])
def test_a_bad_record_says_what_is_missing(value: Any) -> None:
    with pytest.raises(ValueError, match="release"):
        Release.from_json(value)


@pytest.mark.parametrize("name", ["../../etc", "0.1.0", ".partial-0.1.0-000000000000", "0.1.0-00000000000g"])
def test_a_record_never_names_another_place(installed: tuple[Path, Release], name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a release"):
        Release.from_json({**installed[1].to_json(), "id": name})
