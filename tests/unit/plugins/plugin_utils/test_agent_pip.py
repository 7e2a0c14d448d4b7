# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which pip is run, with which settings, and what its words mean; a contract test hears them from a real one."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _agent_pip
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_pip import (
    PipFailed,
    Source,
    bundled_pip,
    explain,
    fill,
    find_pip,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import Target

TARGET = Target("3.13", "x86_64", ("manylinux_2_34_x86_64", "linux_x86_64"))
FAKE = """#!/bin/sh
echo "$@" > {place}/arguments
env > {place}/environment
pwd > {place}/directory
{then}
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A Python without pip and ensurepip, and an empty path."""
    monkeypatch.setattr(_agent_pip.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(_agent_pip.sysconfig, "get_config_var", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_named_pip_is_taken(alone: None, tmp_path: Path) -> None:
    pip, python = program(tmp_path / "pip3.12"), program(tmp_path / "python3")
    assert find_pip(str(pip)) == [str(pip)]
    assert find_pip(str(python)) == [str(python), "-m", "pip"]
    with pytest.raises(PipFailed, match="agent_runtime_pip is /nowhere/pip, which is no program on the controller"):
        find_pip("/nowhere/pip")


def test_the_pip_of_ansibles_python_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.machinery.ModuleSpec("pip", None)
    monkeypatch.setattr(_agent_pip.importlib.util, "find_spec", lambda name: there)
    assert find_pip(python="/venv/bin/python") == ["/venv/bin/python", "-m", "pip"]


def test_without_it_the_one_of_ensurepip(alone: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_bundled").mkdir()
    wheel = tmp_path / "_bundled" / "pip-24.0-py3-none-any.whl"
    wheel.touch()
    spec = importlib.machinery.ModuleSpec("ensurepip", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    alone.setattr(_agent_pip.importlib.util, "find_spec", lambda name: spec if name == "ensurepip" else None)
    assert find_pip(python="/p") == ["/p", f"{wheel}/pip"]


def test_debian_keeps_that_one_elsewhere(alone: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "pip-23.0.1-py3-none-any.whl"
    wheel.touch()
    alone.setattr(_agent_pip.sysconfig, "get_config_var", {"WHEEL_PKG_DIR": str(tmp_path)}.get)
    assert bundled_pip() == str(wheel)


def test_then_the_one_in_the_path(alone: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = program(tmp_path / "pip3")
    alone.setenv("PATH", str(tmp_path))
    assert find_pip() == [str(pip)]


def test_without_any_it_says_what_to_install(alone: None) -> None:
    with pytest.raises(PipFailed) as caught:
        find_pip(python="/venv/bin/python")
    for words in ("/venv/bin/python has none", "python3-pip", "python3-venv", "agent_runtime_pip"):
        assert words in str(caught.value)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path


def filled(place: Path, source: Source, then: str = "true", **environ: str) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that pip got."""
    pip = program(place / "pip", FAKE.format(place=place, then=then))
    kept = {"PATH": os.environ["PATH"], **environ}
    fill(place / "tree", TARGET, Path("/locks/l.txt"), [str(pip)], source, kept)
    pairs = (line.split("=", 1) for line in (place / "environment").read_text().splitlines())
    return (place / "arguments").read_text().split(), dict(pairs)


def test_pip_is_asked_for_the_lock_and_nothing_else(place: Path) -> None:
    arguments, _environment = filled(place, Source())
    assert arguments[0] == "install"
    assert arguments[-2:] == ["-r", "/locks/l.txt"]
    assert {"--require-hashes", "--no-compile", "--no-deps", "--only-binary=:all:"} <= set(arguments)
    assert arguments[arguments.index("--target") + 1] == str(place / "tree")
    assert [arguments[n + 1] for n, word in enumerate(arguments) if word == "--platform"] == list(TARGET.platforms)


def test_settings_of_the_user_hold_but_for_where_things_go(place: Path) -> None:
    mine = {"PIP_INDEX_URL": "https://mirror/", "PIP_CERT": "/ca", "PIP_TARGET": "/x", "PIP_USER": "1"}
    _arguments, environment = filled(place, Source(), PIP_NO_BINARY=":all:", **mine)
    assert environment["PIP_INDEX_URL"] == "https://mirror/"
    assert environment["PIP_CERT"] == "/ca"
    assert environment["PIP_USER"] == "0"
    assert not {"PIP_TARGET", "PIP_NO_BINARY"} & set(environment)


def test_a_named_index_is_not_in_the_command_line(place: Path) -> None:
    arguments, environment = filled(place, Source(index="https://me:secret@mirror/"), PIP_INDEX_URL="https://other/")
    assert environment["PIP_INDEX_URL"] == "https://me:secret@mirror/"
    assert "secret" not in " ".join(arguments)


def test_with_a_wheel_directory_nobody_else_is_asked(place: Path) -> None:
    mine = {"PIP_INDEX_URL": "https://mirror/", "PIP_FIND_LINKS": "https://links/", "PIP_CONFIG_FILE": "/etc/pip.conf"}
    arguments, environment = filled(place, Source(wheel_dir="/wheels"), **mine)
    assert arguments[arguments.index("--no-index") :][:3] == ["--no-index", "--find-links", "/wheels"]
    assert environment["PIP_CONFIG_FILE"] == os.devnull
    assert not {"PIP_INDEX_URL", "PIP_FIND_LINKS"} & set(environment)


def test_a_failing_pip_is_explained(place: Path) -> None:
    with pytest.raises(PipFailed) as caught:
        filled(place, Source(), then="echo one; echo 'ERROR: something new' >&2; exit 1")
    where = "the packages of python3.13-x86_64.txt can't be had from the index that pip is configured with"
    assert str(caught.value) == f"{where}; pip said: one / ERROR: something new"


def test_a_pip_that_can_not_be_run_is_explained(place: Path) -> None:
    with pytest.raises(PipFailed, match="/nowhere/pip can't be run: No such file"):
        fill(place / "tree", TARGET, Path("/l"), ["/nowhere/pip"], Source(), {})


WRONG = """ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. Examine the contents carefully.
    grpcio==1.85.1 from https://index/grpcio.whl (from -r l.txt (line 1)):
        Expected sha256 aaaa
             Got        bbbb
"""
BROKEN = "WARNING: Retrying after connection broken by 'NewConnectionError('<x>: Failed: {}')': /simple/grpcio/\n"
NONE = "ERROR: No matching distribution found for grpcio==1.85.1\n"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (WRONG, ["grpcio==1.85.1 from https://index/grpcio.whl", "Expected sha256 aaaa Got bbbb", "tampered with"]),
        (BROKEN.format("[Errno 111] Connection refused") + NONE, ["([Errno 111] Connection refused)", "_wheel_dir"]),
        (BROKEN.format("[Errno -2] Name or service not known") + NONE, ["([Errno -2] Name or service not known)"]),
        ("SSLError(1, 'certificate verify failed: self-signed')", ["(certificate verify failed: self-signed)"]),
        (BROKEN.format("?") + NONE, ["can't be reached (pip lost the connection)"]),
        (NONE, ["it has no file of grpcio==1.85.1 for python3.13-x86_64"]),
        ("ERROR: [Errno 28] No space left on device", ["disk is full", "agent_runtime_cache_dir"]),
        ("ERROR: 401 for https://me:secret@index/x", ["ERROR: 401 for https://****@index/x"]),
        ("a\nb\nc\nd\ne\nf\n", ["pip said: b / c / d / e / f"]),
        ("", ["pip said: "]),
    ],
)
def test_what_pip_says_is_told_with_what_to_do(said: str, words: list[str]) -> None:
    told = explain(said, TARGET, Source(wheel_dir="/wheels"))
    assert told.startswith("the packages of python3.13-x86_64.txt can't be had from the wheel directory /wheels")
    for word in words:
        assert word in told


def test_the_real_python_here_has_some_pip() -> None:
    assert find_pip()[0] == sys.executable
