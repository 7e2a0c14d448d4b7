# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which system packages are missing, and what is said when they can't be had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import packages
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn


def script(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is in front of the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return directory


def test_a_package_is_missing_where_its_command_is(tmp_path: Path) -> None:
    script(tmp_path, "git", "")
    assert [package.name for package in packages.missing(["lint"], str(tmp_path))] == ["shellcheck"]
    script(tmp_path, "shellcheck", "")
    assert packages.missing(["lint"], str(tmp_path)) == []


def test_a_package_without_a_command_is_missing_where_its_file_is(tmp_path: Path) -> None:
    keys = packages.Package("keys", str(tmp_path / "keys.gpg"))
    assert packages.command_of(keys) is None
    (tmp_path / "keys.gpg").touch()
    assert packages.command_of(keys) == keys.command


@pytest.mark.parametrize("part", ["demo", "contract", "molecule", "bench"])
def test_who_makes_a_debian_has_debians_keys(part: str) -> None:
    names = {package.name for package in packages.TABLE[part]}
    assert names >= {"mmdebstrap", "debian-archive-keyring", "gpg"}


def test_each_missing_package_is_named_once(tmp_path: Path) -> None:
    names = [package.name for package in packages.missing(["contract", "molecule", "demo"], str(tmp_path))]
    assert len(names) == len(set(names))
    assert "qemu-system-x86" in names


def test_the_package_lists_are_fetched_where_they_do_not_do(commands: Path, tmp_path: Path) -> None:
    fetched = tmp_path / "fetched"
    script(commands, "apt-get", f'case "$*" in *update*) touch {fetched} ;; *) test -e {fetched} ;; esac')
    packages.apt_install(["zstd"], tmp_path / "log")
    assert fetched.exists()


def test_what_can_not_be_had_is_named_with_what_apt_said(commands: Path, tmp_path: Path) -> None:
    script(commands, "apt-get", 'echo "E: Unable to locate package"; exit 100')
    with pytest.raises(CannotGoOn) as told:
        packages.apt_install(["zstd", "socat"], tmp_path / "log")
    assert "zstd socat" in str(told.value)
    assert "Unable to locate package" in str(told.value)
    assert "by hand" in str(told.value)


def test_an_optional_package_is_left_out_and_named(commands: Path, tmp_path: Path) -> None:
    script(commands, "apt-get", 'case "$*" in *shellcheck*) exit 100 ;; esac')
    wanted = [packages.GIT, packages.Package("shellcheck", "shellcheck", optional=True)]
    assert [package.name for package in packages.install(wanted, tmp_path / "log")] == ["shellcheck"]


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch, commands: Path, tmp_path: Path) -> None:
    script(commands, "apt-get", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotGoOn, match="sudo apt-get install zstd"):
        packages.apt_install(["zstd"], tmp_path / "log")


def test_a_machine_without_apt_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotGoOn, match=r"lacks: zstd\. It has no apt-get"):
        packages.apt_install(["zstd"], tmp_path / "log")
