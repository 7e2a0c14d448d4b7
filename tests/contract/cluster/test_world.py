# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A cluster's namespaces: worlds don't meet, and nothing is left of one, however it ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import locked
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cli import forget_ended
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cluster import Cluster
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import ClusterError, wait_until
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.world import World


@contextlib.contextmanager
def open_world(folder: Path, owner: int | None = None) -> Iterator[World]:
    world = World(folder)
    world.open(owner or os.getpid())
    try:
        yield world
    finally:
        world.close()


def processes_of(world: World) -> list[int]:
    """Ids, as we see them, of all processes in the world."""
    namespace = os.readlink(f"/proc/{world.pid}/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace:
                found.append(int(entry.name))
    return found


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_two_worlds_have_the_same_addresses_and_do_not_meet(tmp_path: Path) -> None:
    with open_world(tmp_path / "a") as one, open_world(tmp_path / "b") as other:
        for world in (one, other):
            assert "10.77.0.1/24" in world.run(["ip", "-4", "address"], "addresses")
        one.start("listener", ["socat", "TCP-LISTEN:7000,fork,reuseaddr", "EXEC:echo one"])

        def heard() -> bool:
            with contextlib.suppress(ClusterError):
                return one.run(["socat", "-", "TCP:10.77.0.1:7000"], "talk").strip() == "one"
            return False

        wait_until("the listener", heard, 10)
        with pytest.raises(ClusterError, match="refused"):
            other.run(["socat", "-", "TCP:10.77.0.1:7000"], "talk")


def test_processes_are_started_watched_and_ended(tmp_path: Path) -> None:
    with open_world(tmp_path / "w") as world:
        world.start("sleeper", ["sleep", "1000"])
        assert world.runs("sleeper")
        with pytest.raises(ClusterError, match="runs already"):
            world.start("sleeper", ["sleep", "1000"])
        world.stop("sleeper")
        assert world.ask({"status": {}}) == {"sleeper": -15}
        world.start("failing", ["sh", "-c", "echo why; exit 3"])
        wait_until("its end", lambda: not world.runs("failing"), 10)
        assert world.ask({"status": {}})["failing"] == 3
        assert (world.folder / "failing.log").read_text() == "why\n"


def test_closing_ends_grandchildren_too(tmp_path: Path) -> None:
    world = World(tmp_path / "w")
    world.open(None)
    world.start("family", ["sh", "-c", "setsid sleep 1000 & sleep 1000"])
    wait_until("the family", lambda: len(processes_of(world)) >= 4, 10)
    pids = processes_of(world)
    world.close()
    assert gone(pids)
    assert not world.folder.exists()
    assert world.pid is None
    world.close()  # a second time does no harm


@pytest.mark.parametrize("victim", ["owner", "init"])
def test_a_kill_leaves_nothing_running(tmp_path: Path, victim: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    try:
        with open_world(tmp_path / "w", owner.pid) as world:
            world.start("sleeper", ["sleep", "1000"])
            pids = processes_of(world)
            assert len(pids) == 2
            if victim == "owner":
                owner.kill()
                owner.wait()
            else:
                os.kill(world.pid or 0, 9)
            wait_until("the end of all", lambda: gone(pids), 10)
            assert world.pid is None
            with pytest.raises(ClusterError, match="does not run"):
                world.run(["true"], "anything")
    finally:
        owner.kill()
        owner.wait()


def test_what_a_killed_run_left_goes_and_nothing_else(tmp_path: Path) -> None:
    clusters = [Cluster(name, tmp_path / name) for name in ("runs", "killed", "coming")]
    runs, killed, coming = clusters
    coming.folder.mkdir()
    killed.folder.mkdir()
    (killed.folder / "init.pid").write_text("1 0")  # another process has that number by now
    with open_world(runs.folder), locked(coming.folder):
        forget_ended(clusters)
        assert [cluster.name for cluster in clusters if cluster.folder.exists()] == ["runs", "coming"]
        assert runs.world.pid is not None
