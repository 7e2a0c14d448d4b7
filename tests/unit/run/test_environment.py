# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The virtual environment of the tools: which Python, made once, never half."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import environment, packages
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn

TESTS = Path(__file__).resolve().parents[2]
RECIPES = (environment.TOOLS, environment.NEWEST_CORE)
STUB = "/bin/true"  # in the place of an environment's Python
THIS = environment.Interpreter(sys.executable, f"{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock file that lists nothing."""
    path = tmp_path / "requirements.lock"
    path.write_text("# nothing\n")
    return path


def python(directory: Path, name: str, version: str | None) -> None:
    """A stand-in for a Python that answers the probe with a version, or can't make environments."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{f'echo {version}' if version else 'exit 1'}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"python3": "3.11", "python3.13": "3.13"}, "python3"),  # the machine's own, if it serves
        ({"python3": "3.10", "python3.11": "3.11", "python3.12": "3.12"}, "python3.12"),
        ({"python3": None, "python3.11": "3.11"}, "python3.11"),  # Debian's python3 without its venv package
        ({"python3": "3.14"}, None),
        ({}, None),
    ],
)
def test_which_python(
    there: dict[str, str | None], chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in there.items():
        python(tmp_path, name, version)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = environment.find_interpreter()
    assert (Path(found.command).name if found else None) == chosen


def test_the_newest_core_takes_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python(tmp_path, "python3", "3.11")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.find_interpreter(environment.NEWEST_CORE.pythons) is None
    python(tmp_path, "python3.12", "3.12")
    found = environment.find_interpreter(environment.NEWEST_CORE.pythons)
    assert found == environment.Interpreter(str(tmp_path / "python3.12"), "3.12")


def test_the_newest_python_that_apt_offers_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []

    def install(names: list[str], _log: Path) -> None:
        installed.extend(names)
        python(tmp_path, "python3.12", "3.12")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "offered", lambda name: name in ("python3.11-venv", "python3.12-venv"))
    monkeypatch.setattr(packages, "apt_install", install)
    assert environment.install_interpreter(tmp_path / "log").version == "3.12"
    assert installed == ["python3.12-venv"]


def test_no_python_to_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotGoOn, match=r"Python 3\.11 to 3\.13.*\n.*apt source"):
        environment.install_interpreter(tmp_path / "log")


@pytest.fixture
def quick(tmp_path: Path) -> environment.Interpreter:
    """Stands in for a Python (a real environment takes seconds): its environments hold a Python that never fails."""
    path = tmp_path / "quick-python"
    path.write_text(f"#!/bin/sh\nfor last; do :; done\nrm -rf $last\nmkdir -p $last/bin\ncp {STUB} $last/bin/python\n")
    path.chmod(0o755)
    return environment.Interpreter(str(path), "3.11")


def test_an_environment_is_made_once(tmp_path: Path, lock: Path) -> None:
    first, made = environment.make(THIS, lock, tmp_path / "cache", tmp_path / "logs")
    assert made
    assert first.command("pip").exists()
    assert environment.make(THIS, lock, tmp_path / "cache", tmp_path / "logs") == (first, False)


def test_a_half_made_environment_is_made_anew(tmp_path: Path, lock: Path, quick: environment.Interpreter) -> None:
    tools, _made = environment.make(quick, lock, tmp_path / "cache", tmp_path / "logs")
    (tools.directory / ".complete").unlink()
    (tools.directory / "left-over").touch()
    again, made = environment.make(quick, lock, tmp_path / "cache", tmp_path / "logs")
    assert made
    assert not (again.directory / "left-over").exists()


def test_an_environment_whose_python_is_gone_is_not_used(
    tmp_path: Path, lock: Path, quick: environment.Interpreter
) -> None:
    tools, _made = environment.make(quick, lock, tmp_path / "cache", tmp_path / "logs")
    assert environment.is_complete(tools.directory)
    tools.python.unlink()
    tools.python.symlink_to("/nowhere/python")
    assert not environment.is_complete(tools.directory)


def test_what_pip_can_not_get_is_said_and_no_environment_left(tmp_path: Path, lock: Path) -> None:
    lock.write_text(f"surely-no-such-package==1.0 --hash=sha256:{'0' * 64}\n--no-index\n")
    with pytest.raises(CannotGoOn, match="surely-no-such-package") as told:
        environment.make(THIS, lock, tmp_path / "cache", tmp_path / "logs")
    assert "PIP_INDEX_URL" in str(told.value)
    directory = environment.directory_of(tmp_path / "cache", lock.read_bytes(), THIS.version)
    assert not environment.is_complete(directory)


def test_a_change_of_the_lock_or_of_python_makes_another_environment(tmp_path: Path) -> None:
    names = {environment.directory_of(tmp_path, lock, version) for lock in (b"a", b"b") for version in ("3.11", "3.12")}
    assert len(names) == 4


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_lock_names_no_place_and_hashes_everything(recipe: environment.Recipe) -> None:
    lock = (TESTS / recipe.lock).read_text()
    assert "://" not in lock
    requirements = [block for block in lock.replace("\\\n", " ").splitlines() if block and not block.startswith("#")]
    assert len(requirements) > 20
    assert all("==" in requirement and "--hash=sha256:" in requirement for requirement in requirements)


@pytest.mark.parametrize("recipe", RECIPES)
def test_ansible_test_has_its_exceptions_for_each_core(recipe: environment.Recipe) -> None:
    minor = environment.core_in((TESTS / recipe.lock).read_text()).rpartition(".")[0]
    assert (TESTS / "sanity" / f"ignore-{minor}.txt").is_file()


def test_the_newest_core_is_newer() -> None:
    tools, newest = (environment.core_in((TESTS / recipe.lock).read_text()).split(".") for recipe in RECIPES)
    assert [int(number) for number in newest] > [int(number) for number in tools]
