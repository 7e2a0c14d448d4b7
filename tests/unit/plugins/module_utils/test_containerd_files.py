# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import (
    MAX_BYTES,
    Disk,
    Overlay,
    load,
    resolve,
    shadow,
)


class Files:
    """A source of made files."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def names(self, directory: str) -> list[str]:
        return [posixpath.basename(path) for path in self.files if posixpath.dirname(path) == directory]


def test_files_come_in_the_order_of_reading() -> None:
    source = Files(
        {
            "/etc/c/config.toml": "imports = ['d/*.toml', '/etc/c/last.toml', 'gone.toml']",
            "/etc/c/d/b.toml": "imports = ['../nested.toml', 'a.toml']",
            "/etc/c/d/a.toml": "",
            "/etc/c/d/.hidden.toml": "",
            "/etc/c/d/no.txt": "",
            "/etc/c/last.toml": "imports = ['config.toml']",
            "/etc/c/nested.toml": "",
        }
    )
    found = load("/etc/c/config.toml", source)
    assert [posixpath.relpath(file.path, "/etc/c") for file in found.files] == [
        "config.toml",
        "d/.hidden.toml",
        "d/a.toml",
        "d/b.toml",
        "last.toml",
        "nested.toml",
    ]
    assert found.missing == (("/etc/c/config.toml", "/etc/c/gone.toml"),)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*.toml", ["a.toml", "b.toml"]),
        ("?.toml*", ["a.toml", "a.toml~", "b.toml"]),
        ("[b-z]*", ["b.toml", "x*"]),
        ("[^a]*", ["b.toml", "x*"]),
        ("\\x\\**", ["x*"]),
        ("**", ["a.toml", "a.toml~", "b.toml", "x*"]),
        ("q*", []),
    ],
)
def test_patterns_are_those_of_go(pattern: str, matches: list[str]) -> None:
    source = Files({f"/d/{name}": "" for name in ("b.toml", "a.toml", "a.toml~", "x*")})
    assert resolve("/d/main", pattern, source) == [f"/d/{name}" for name in matches]


def test_a_pattern_in_a_directory_name() -> None:
    class Tree(Files):
        def names(self, directory: str) -> list[str]:
            return {"/d": ["y", "x"], "/d/x": ["f"], "/d/y": ["f", "g"]}.get(directory, [])

    assert resolve("/etc/main", "/d/*/f", Tree({})) == ["/d/x/f", "/d/y/f"]


def test_a_shadow_imports_its_own_copies() -> None:
    source = Files({"/e/m": "imports = ['n', 'gone']  # c\nx = 1", "/e/n": "y = 2", "/e/unread": ""})
    main, copies = shadow(load("/e/m", source), "/tmp/s")
    assert main == "/tmp/s/0.toml"
    assert copies == {
        "/tmp/s/0.toml": b"imports = ['/tmp/s/1.toml', '/e/gone']  # c\nx = 1",
        "/tmp/s/1.toml": b"y = 2",
    }


def test_an_overlay_changes_and_adds() -> None:
    overlay = Overlay(Files({"/d/a": "1", "/d/b": "2"}), {"/d/b": b"3", "/d/c": b"4"})
    assert [overlay.read(f"/d/{name}") for name in "abcx"] == [b"1", b"3", b"4", None]
    assert overlay.names("/d") == ["a", "b", "c"]


def test_a_file_that_cannot_be_read_says_so_and_one_of_odd_bytes_can() -> None:
    found = load("/m", Files({"/m": "imports = ['bad', 'odd']", "/bad": "x = \n", "/odd": b"# \xfc\n"}))
    assert [str(file.problem) for file in found.files] == [
        "None",
        "line 1, column 5: a value should stand here",
        "None",
    ]


def test_disk(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "huge").write_bytes(b"#" * (MAX_BYTES + 1))
    disk = Disk()
    assert disk.read(str(tmp_path / "f")) == b"x"
    assert disk.read(str(tmp_path / "none")) is None
    assert disk.read(str(tmp_path / "f" / "below")) is None
    assert sorted(disk.names(str(tmp_path))) == ["f", "huge"]
    assert disk.names(str(tmp_path / "none")) == []
    with pytest.raises(OSError, match="no config of containerd"):
        disk.read(str(tmp_path / "huge"))
