# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent and its kubelet in a directory whose sockets' paths stay short; made nodes that releases are brought to."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess
from ansible_collections.colocation.kubernetes.tests.contract.agents.device_manager import DeviceManager
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.release_site import (
    AGENTS,
    ONE,
    Run,
    Site,
    nodes,
)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dp-", dir="/tmp") as made:
        (Path(made) / "k").mkdir()
        yield Path(made)


@pytest.fixture
def kubelet(place: Path) -> Iterator[KubeletDouble]:
    double = KubeletDouble(place / "k")
    double.start()
    yield double
    double.stop()


@pytest.fixture
def manager(place: Path) -> Iterator[DeviceManager]:
    made = DeviceManager(place / "k")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def start(place: Path) -> Iterator[Callable[[str], AgentProcess]]:
    started: list[AgentProcess] = []

    def begin(config: str) -> AgentProcess:
        started.append(AgentProcess(place, f"kubelet_dir: {place}/k\n{config}"))
        return started[-1]

    yield begin
    for agent in started:
        agent.close()


@pytest.fixture(scope="session")
def all_pythons(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Run]:
    place = tmp_path_factory.mktemp("site")
    site = Site(place, place / "cache")
    run = site.run(nodes(site))
    assert run.status == 0, run.output
    return site, run


@pytest.fixture
def site(all_pythons: tuple[Site, Run], tmp_path: Path) -> Site:
    """Fresh nodes, with the cache of the first run."""
    return Site(tmp_path, all_pythons[0].cache)


@pytest.fixture
def installed(all_pythons: tuple[Site, Run], site: Site) -> Site:
    """A node with a release, as the first run made it."""
    first = all_pythons[0].place
    shutil.copytree(first / f"node-{ONE}", site.place / "node", symlinks=True)
    shutil.copy(first / f"node-{ONE}.json", site.place / "node.json")
    return site


@pytest.fixture
def bare(tmp_path: Path) -> Site:
    """Fresh nodes, and a controller that has made nothing."""
    return Site(tmp_path, tmp_path / "cache")


@pytest.fixture(scope="session")
def all_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of wheels for the first Python, made as the role's README says."""
    place = tmp_path_factory.mktemp("wheels")
    where = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp", "--python-version", ONE)
    platforms = ("--platform", f"manylinux2014_{platform.machine()}")
    lock = AGENTS / "locks" / f"python{ONE}-{platform.machine()}.txt"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", place, *where, *platforms]
    subprocess.run([*command, "-r", lock], check=True)
    return place


@pytest.fixture
def wheels(all_wheels: Path, tmp_path: Path) -> Path:
    """One that may be changed."""
    return Path(shutil.copytree(all_wheels, tmp_path / "wheels"))
