# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What agent_release does on controllers that lack something: an index, pip, the right wheel."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.release_site import (
    ONE,
    PYTHON,
    Site,
    index_down,
)
from ansible_collections.colocation.kubernetes.tests.ports import free_port


def test_an_index_that_is_down(bare: Site) -> None:
    run = bare.run({"node": bare.node("node", PYTHON)}, environment=index_down())
    assert run.failed("can't be had from the index that pip is configured with: it can't be reached"), run.output
    assert run.failed("[Errno 111] Connection refused"), run.output
    assert not (bare.place / "node").exists()


def test_a_named_index_that_is_down_keeps_its_password(bare: Site) -> None:
    index = f"http://me:hidden-word@127.0.0.1:{free_port()}/simple"
    variables = {"agent_runtime_index": index}
    node = {"node": bare.node("node", PYTHON, **variables)}
    run = bare.run(node, "-vvv", environment={**index_down(), "PIP_INDEX_URL": ""})
    assert run.failed("can't be had from the index of agent_runtime_index: it can't be reached"), run.output
    assert "hidden-word" not in run.output


def test_a_file_that_is_not_the_one_of_the_lock(bare: Site) -> None:
    source = bare.source(lock=("--hash=sha256:", "--hash=sha256:" + "0" * 64 + " #"))
    run = bare.run({"node": bare.node("node", PYTHON)}, agent_runtime_source=str(source))
    assert run.failed("it may have been tampered with"), run.output
    assert run.failed("Expected sha256 " + "0" * 64), run.output
    assert sorted(path.name for path in bare.cache.iterdir()) == [f"python{ONE}-{platform.machine()}.lock"]


def test_wheels_in_a_directory_are_enough(bare: Site, wheels: Path) -> None:
    node = {"node": bare.node("node", PYTHON)}
    run = bare.run(node, environment=index_down(), agent_runtime_wheel_dir=str(wheels))
    assert run.status == 0, run.output
    assert len(bare.releases("node")) == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("missing", "it has no file of grpcio=="),
        ("another", "The file there is not the one that the lock names"),
        ("no directory", "wheels, which is no directory on the controller"),
    ],
)
def test_a_directory_of_wheels_that_lacks_something(bare: Site, wheels: Path, damage: str, words: str) -> None:
    (grpcio,) = wheels.glob("grpcio-*")
    if damage == "missing":
        grpcio.unlink()
    elif damage == "another":
        grpcio.write_bytes(b"another")
    else:
        shutil.rmtree(wheels)
    run = bare.run({"node": bare.node("node", PYTHON)}, agent_runtime_wheel_dir=str(wheels))
    assert run.failed(words), run.output
    assert not (bare.place / "node").exists()


def bare_environment(place: Path) -> Path:
    """A virtual environment as uv makes them: Ansible is in it, pip is not."""
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (there,) = {path for path in map(Path, sys.path) if (path / "ansible").is_dir()}
    for item in there.iterdir():
        if not re.match(r"(pip|_distutils_hack|distutils-precedence)", item.name):
            (packages / item.name).symlink_to(item)
    assert subprocess.run([place / "bin/python", "-c", "import pip"], capture_output=True, check=False).returncode
    return place / "bin" / "python"


def test_a_controller_without_pip_takes_the_one_of_ensurepip(bare: Site, wheels: Path) -> None:
    python = bare_environment(bare.place / "venv")
    node = {"node": bare.node("node", PYTHON)}
    run = bare.run(node, controller=str(python), environment={"PATH": "/nowhere:/bin:/usr/bin"})
    assert run.status == 0, run.output


def test_a_controller_without_any_pip_says_what_to_install(bare: Site) -> None:
    python = bare_environment(bare.place / "venv")
    (packages,) = (bare.place / "venv").glob("lib/python3*/site-packages")
    ensurepip, wheels = "sys.modules['ensurepip'] = None", "sysconfig.get_config_vars()['WHEEL_PKG_DIR'] = ''"
    (packages / "hidden.pth").write_text(f"import sys, sysconfig; {ensurepip}; {wheels}\n")
    (bare.place / "empty").mkdir()
    for name in ("sh", "df", "mkdir", "rm", "chmod", "id", "sleep", "stty"):
        (bare.place / "empty" / name).symlink_to(shutil.which(name) or "/bin/false")
    run = bare.run(
        {"node": bare.node("node", PYTHON)},
        controller=str(python),
        environment={"PATH": str(bare.place / "empty")},
    )
    assert run.failed("the controller has no pip, which fetches the agents' packages"), run.output
    assert run.failed("python3-pip, or python3-venv on Debian"), run.output


def test_a_cache_of_another_controller_needs_no_pip(site: Site, bare: Site) -> None:
    shutil.copytree(site.cache, bare.cache)
    node = {"node": bare.node("node", PYTHON)}
    run = bare.run(node, environment=index_down(), agent_runtime_pip="/bin/false")
    assert run.status == 0, run.output


@pytest.mark.parametrize("setting", [{"agent_runtime_keep_releases": 1}, {"agent_runtime_root": "/opt"}])
def test_settings_that_make_no_sense_are_refused(bare: Site, setting: dict[str, Any]) -> None:
    run = bare.run({"node": bare.node("node", PYTHON)}, **setting)
    assert run.failed("there is no release to go back to"), run.output
