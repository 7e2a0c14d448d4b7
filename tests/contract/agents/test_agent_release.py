# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The road of a release with a real Ansible, a real pip and the real locks: the nodes are directories of this machine.

One run makes the trees of all Pythons that are here; the tests after it use its cache. What goes wrong on the
controller is in `test_agent_controller`.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_install import space_needed
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release
from ansible_collections.colocation.kubernetes.tests.contract.agents.interpreters import interpreter
from ansible_collections.colocation.kubernetes.tests.contract.agents.release_site import (
    ONE,
    PYTHON,
    PYTHONS,
    Run,
    Site,
    index_down,
    nodes,
)

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")


@pytest.mark.parametrize("version", PYTHONS)
def test_a_node_gets_agents_that_run_with_its_python(all_pythons: tuple[Site, Run], version: str) -> None:
    site, _run = all_pythons
    told = site.told(f"node-{version}")
    release = site.place / f"node-{version}" / "current"
    record = json.loads((release / "RELEASE.json").read_text())
    assert (record["python"], record["architecture"]) == (version, platform.machine())
    assert told["interpreter"] == PYTHONS[version]
    assert os.readlink(release) == f"releases/{told['release']}"
    config = site.place / "config.yaml"
    config.write_text("mock: {mock.com/gpu: 10}\n")
    start = [told["interpreter"], "-Es", "-W", "error", "-m", "colocation.start", "device_plugin"]
    checked = subprocess.run(
        [*start, "--config", config, "--check-config"], cwd=release, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, f"{config}: good\n", "")


def test_forks_make_each_tree_once_and_two_nodes_get_the_same(all_pythons: tuple[Site, Run]) -> None:
    site, run = all_pythons
    archives = sorted(path.name for path in site.cache.glob("*.tar.gz"))
    assert len(archives) == len(PYTHONS)
    twin, other = site.told("twin"), site.told(f"node-{ONE}")
    assert twin["release"] == other["release"]
    assert [twin["task"]["archive"]["made"], other["task"]["archive"]["made"]].count(True) == 1
    assert len({site.told(f"node-{version}")["release"] for version in PYTHONS}) == len(PYTHONS)


def test_a_second_run_changes_nothing_and_asks_no_pip(all_pythons: tuple[Site, Run]) -> None:
    site, _run = all_pythons
    again = site.run(nodes(site), environment=index_down(), agent_runtime_pip="/bin/false")
    assert again.status == 0, again.output
    tasks = [site.told(name)["task"] for name in nodes(site)]
    assert [task["changed"] for task in tasks] == [False] * len(tasks)
    assert all("copy" not in task["seconds"] for task in tasks)


def test_another_controller_makes_the_same_bytes(all_pythons: tuple[Site, Run], bare: Site) -> None:
    site, _run = all_pythons
    run = bare.run({"node": bare.node("node", PYTHON)}, environment={"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"})
    assert run.status == 0, run.output
    (made,) = bare.cache.glob("*.tar.gz")
    assert made.read_bytes() == (site.cache / made.name).read_bytes()


def test_check_mode_tells_the_release_and_touches_nothing(site: Site) -> None:
    node = {"node": site.node("node", PYTHON)}
    told = site.run(node, "--check", "--diff")
    assert told.status == 0, told.output
    assert not (site.place / "node").exists()
    release = site.told("node")["release"]
    assert f"+releases/{release}\n+current -> releases/{release}" in told.output
    assert site.run(node).status == 0
    assert site.releases("node") == [site.told("node")["release"]] == [release]


def test_changed_code_is_a_new_release_beside_the_running_one(installed: Site) -> None:
    site, node = installed, {"node": installed.node("node", PYTHON)}
    first = site.told("node")["release"]
    for number in range(2):
        source = str(site.source(f"number = {number}\n"))
        run = site.run(node, agent_runtime_source=source, agent_runtime_keep_releases=2)
        assert run.status == 0, run.output
    last = site.told("node")
    assert last["release"].split("-")[0] == first.split("-")[0]
    assert site.releases("node") == sorted([first, last["release"]])
    assert os.readlink(site.place / "node" / "current") == f"releases/{first}"


@pytest.mark.skipif(len(PYTHONS) < 2, reason="there is one Python here")
def test_a_node_whose_python_changed_gets_a_release_for_it(installed: Site) -> None:
    """As after a distribution upgrade; the agents' role then has them run in it, for all that they load is other."""
    site = installed
    first = site.told("node")["release"]
    version, path = list(PYTHONS.items())[1]
    run = site.run({"node": site.node("node", path)})
    assert run.status == 0, run.output
    release = site.told("node")["release"]
    assert site.releases("node") == sorted([first, release])
    old, new = (
        json.loads((site.place / "node" / "releases" / name / "RELEASE.json").read_text()) for name in (first, release)
    )
    assert (old["python"], new["python"]) == (ONE, version)
    assert old["agents"]["device_plugin"] != new["agents"]["device_plugin"]


def test_a_damaged_release_is_mended(installed: Site) -> None:
    site, node = installed, {"node": installed.node("node", PYTHON)}
    victim = site.place / "node" / "current" / "grpc" / "__init__.py"
    whole = victim.read_text()
    victim.write_text("")
    run = site.run(node)
    assert run.status == 0, run.output
    assert "is installed anew: its files are not what was installed" in run.words
    assert victim.read_text() == whole


def test_uninstall_leaves_nothing_and_can_be_run_twice(installed: Site) -> None:
    site, node = installed, {"node": installed.node("node", PYTHON)}
    for changed in (1, 0):
        run = site.run(node, playbook="uninstall")
        assert run.status == 0, run.output
        assert f"changed={changed} " in run.output
        assert not (site.place / "node").exists()


# What goes wrong on the node


def broken(site: Site, run: Run, words: str) -> None:
    """A run failed with these words, and left the first release alone."""
    assert run.failed(words), run.output
    assert len(site.releases("node")) == 1
    assert "Traceback" not in run.output
    (there,) = (site.place / "node" / "releases").iterdir()
    assert (there / "colocation" / "device_plugin" / "__init__.py").read_text().count("upgrade") == 0


@pytest.fixture
def running(installed: Site) -> Site:
    """A node with a release, and the sources of another."""
    installed.source("upgrade = 1\n")
    return installed


def upgrade(site: Site, *before: str, **variables: Any) -> Run:
    node = {"node": site.node("node", PYTHON, **variables)}
    return site.run(node, before=before, agent_runtime_source=str(site.place / "source"))


def test_code_that_does_not_start_on_the_node(running: Site) -> None:
    running.source("import missing_module  # upgrade\n")
    broken(running, upgrade(running), "device_plugin does not start here")


def test_a_machine_of_another_architecture(running: Site) -> None:
    """The tree of this machine, unpacked where the interpreter can't load it."""
    other = running.place / "python-elsewhere"
    probe = "import platform; platform.machine = lambda: 'riscv64'"
    other.write_text(
        f'#!/bin/sh\n[ "$3" = -c ] || exec {PYTHON} "$@"\nshift 3; code=$1; shift\n'
        f'exec {PYTHON} -EsB -c "{probe}\n$code" "$@"\n'
    )
    other.chmod(0o755)
    run = upgrade(running, agent_runtime_python_interpreter=str(other))
    broken(running, run, f"the agents have no lock for Python {ONE} on riscv64; there are locks for Python 3.10, 3.11")


def test_a_python_that_is_too_old_or_not_there(running: Site) -> None:
    run = upgrade(running, agent_runtime_python_interpreter="/nowhere/python3")
    broken(running, run, "agent_runtime_python_interpreter is /nowhere/python3: it is not there")
    old = interpreter("3.9")
    if old:
        run = upgrade(running, agent_runtime_python_interpreter=old)
        broken(running, run, "it is Python 3.9, and there are locks for 3.10, 3.11, 3.12, 3.13, 3.14")


def test_a_node_without_any_python_for_modules(running: Site) -> None:
    run = upgrade(running, ansible_python_interpreter="/nowhere/python3")
    broken(running, run, "there is no Python on the node that modules can run with")


def own_mounts() -> tuple[str, ...]:
    """A command whose mounts nobody else sees. In a chroot nothing is mounted at /, and there is nothing to change."""
    mounted = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return ("unshare", "--mount", "--propagation", "private" if "/" in mounted else "unchanged")


def in_a_small_place(site: Site, options: str, *then: str) -> tuple[str, ...]:
    """Run a command with a small file system of its own where the releases are; what stands there goes along."""
    root = site.place / "node"
    script = (
        f"mount -t tmpfs -o {options} none {site.place}/small && cp -a {root}/. {site.place}/small/ && "
        f'mount --bind {site.place}/small {root} && {{ "$@"; status=$?; ls {root}/releases >{site.place}/left; '
        "exit $status; }"
    )
    (site.place / "small").mkdir()
    return (*own_mounts(), "sh", "-c", script, "sh", *then)


@AS_ROOT
def test_a_disk_with_too_little_space(running: Site) -> None:
    release = Release.from_json(running.told("node")["task"]["record"])
    run = upgrade(running, *in_a_small_place(running, f"size={space_needed(release) + 20 * 2**20}"))
    found = re.search(r"too little space for the agents in \S+: (\d+) bytes are needed and (\d+) are free", run.words)
    assert found, run.output
    assert int(found[1]) > int(found[2]) > 0
    broken(running, run, "Make room, or put them elsewhere with agent_runtime_root")
    assert (running.place / "left").read_text().split() == running.releases("node")


@AS_ROOT
def test_a_disk_that_turns_out_to_be_full(running: Site) -> None:
    """Its bytes would do, but it has no room for so many files."""
    stands = len(list((running.place / "node").rglob("*")))
    small = in_a_small_place(running, f"size=200m,nr_inodes={stands + 100}")
    run = upgrade(running, *small)
    broken(running, run, "got full on the way")
    assert re.search(r"\((\d+) bytes and \d+ inodes are free now\)", run.words)
    assert (running.place / "left").read_text().split() == running.releases("node")


@AS_ROOT
def test_no_room_for_the_archive_on_its_way(running: Site) -> None:
    tmp = running.place / "remote"
    tmp.mkdir()
    mount = f'mount -t tmpfs -o size=4m none {tmp} && exec "$@"'
    before = (*own_mounts(), "sh", "-c", mount, "sh")
    run = upgrade(running, *before, ansible_remote_tmp=str(tmp))
    broken(running, run, f"too little space for the agents' archive in {tmp}/")


def test_a_run_killed_while_it_unpacks_is_finished_by_the_next(running: Site) -> None:
    """SIGKILL to all of it as soon as the half-made release is there."""
    node = {"node": running.node("node", PYTHON)}
    watch = (
        "import os, signal, subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[2:], start_new_session=True)\n"
        "while child.poll() is None:\n"
        "    if any(name.startswith('.partial-') for name in os.listdir(sys.argv[1])):\n"
        "        os.killpg(child.pid, signal.SIGKILL)\n"
        "        child.wait()\n"
        "    time.sleep(0.001)\n"
        "sys.exit(child.returncode == -9 and 9)\n"
    )
    releases = running.place / "node" / "releases"
    source = str(running.place / "source")
    killed = running.run(node, before=(sys.executable, "-c", watch, str(releases)), agent_runtime_source=source)
    assert killed.status == 9, killed.output
    left = running.releases("node")
    assert [name.startswith(".partial-") for name in left] == [True, False]
    until_unlocked(releases)
    again = running.run(node, agent_runtime_source=source)
    assert again.status == 0, again.output
    assert len(running.releases("node")) == 2
    assert not any(name.startswith(".") for name in running.releases("node"))


def until_unlocked(releases: Path) -> None:
    """The module ends a moment after the run that it belongs to."""
    handle = os.open(releases, os.O_RDONLY)
    end = time.monotonic() + 30
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                assert time.monotonic() < end
                time.sleep(0.05)
    finally:
        os.close(handle)
