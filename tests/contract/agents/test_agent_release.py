# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The whole road with a real Ansible, a real pip and the real locks: the nodes are directories of this machine.

One run makes the trees of all Pythons that are here; the tests after it use its cache, or make one of their own where
the question is what the controller does without.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_install import space_needed
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release
from ansible_collections.colocation.kubernetes.tests.contract.agents.interpreters import interpreter
from ansible_collections.colocation.kubernetes.tests.contract.agents.release_site import AGENTS, Run, Site

KNOWN = {version: interpreter(version) for version in yaml.safe_load((AGENTS / "targets.yml").read_text())["pythons"]}
PYTHONS = {version: found for version, found in KNOWN.items() if found}
ONE, PYTHON = next(iter(PYTHONS.items()))
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")


def nodes(site: Site) -> dict[str, dict[str, Any]]:
    """A node for each Python, and a second one for the first."""
    named = {f"node-{version}": site.node(f"node-{version}", path) for version, path in PYTHONS.items()}
    return {**named, "twin": site.node("twin", PYTHON)}


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
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


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def index_down() -> dict[str, str]:
    """A pip that can reach nothing."""
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": f"http://127.0.0.1:{closed_port()}/simple",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "1",
    }


# The road


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


def in_a_small_place(site: Site, options: str, *then: str) -> tuple[str, ...]:
    """Run a command with a small file system of its own where the releases are; what stands there goes along."""
    root = site.place / "node"
    script = (
        f"mount -t tmpfs -o {options} none {site.place}/small && cp -a {root}/. {site.place}/small/ && "
        f'mount --bind {site.place}/small {root} && {{ "$@"; status=$?; ls {root}/releases >{site.place}/left; '
        "exit $status; }"
    )
    (site.place / "small").mkdir()
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *then)


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
    small = in_a_small_place(running, "size=200m,nr_inodes=650")
    run = upgrade(running, *small)
    broken(running, run, "got full on the way")
    assert re.search(r"\((\d+) bytes and \d+ inodes are free now\)", run.words)
    assert (running.place / "left").read_text().split() == running.releases("node")


@AS_ROOT
def test_no_room_for_the_archive_on_its_way(running: Site) -> None:
    tmp = running.place / "remote"
    tmp.mkdir()
    mount = f'mount -t tmpfs -o size=4m none {tmp} && exec "$@"'
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
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


# What goes wrong on the controller


def test_an_index_that_is_down(bare: Site) -> None:
    run = bare.run({"node": bare.node("node", PYTHON)}, environment=index_down())
    assert run.failed("can't be had from the index that pip is configured with: it can't be reached"), run.output
    assert run.failed("[Errno 111] Connection refused"), run.output
    assert not (bare.place / "node").exists()


def test_a_named_index_that_is_down_keeps_its_password(bare: Site) -> None:
    index = f"http://me:hidden-word@127.0.0.1:{closed_port()}/simple"
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
    (packages / "sitecustomize.py").write_text("import sys\nsys.modules['ensurepip'] = None\n")
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
