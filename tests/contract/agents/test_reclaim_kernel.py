# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kernel's side, on this machine's own kernel: its word on pressure, and the end of a control group.

Pressure is made by a process that reads a file larger than its control group may cache. A pod's limit, and that it goes
when memory is short, are proven in VMs: molecule/memory. What a kernel does at memory.reclaim no test looks at: that it
is written, and what stands in for it, is shown on files only (tests/unit/agents/device_plugin/test_reclaim_cgroup.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import until
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from colocation.device_plugin import reclaim_cgroup
from colocation.device_plugin.pressure import MEMORY, Pressure

THRASH = """
import os, sys
with open(sys.argv[1], "w") as procs:
    procs.write(str(os.getpid()))
with open(sys.argv[2], "w+b") as file:
    for _ in range(48):
        file.write(bytes(1 << 20))
    file.flush()
    os.fsync(file.fileno())
    while True:
        file.seek(0)
        while file.read(1 << 20):
            pass
"""
POD = f"kubepods-pod0f31a2b4_1111_4222_8333_{os.getpid():012x}.slice"


def mounted(kind: str, option: str = "") -> Iterator[Path]:
    """Where this kind of control groups is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _device, place, found, options = line.split()[:4]
        if found == kind and (not option or option in options.split(",")):
            yield Path(place)


@contextmanager
def group(place: Path, name: str) -> Iterator[Path]:
    directory = place / name
    try:
        directory.mkdir()
    except OSError as problem:
        pytest.skip(f"no control group can be made in {place}: {problem.strerror}")
    try:
        yield directory
    finally:
        until("the control group is empty", lambda: not (directory / "cgroup.procs").read_text())
        directory.rmdir()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A control group that may use 16 MiB, of either version."""
    for place in mounted("cgroup2"):
        if "memory" in (place / "cgroup.subtree_control").read_text().split():
            with group(place, f"small-{os.getpid()}") as directory:
                (directory / "memory.max").write_text(str(16 << 20))
                yield directory
                return
    for place in mounted("cgroup", "memory"):
        with group(place, f"small-{os.getpid()}") as directory:
            (directory / "memory.limit_in_bytes").write_text(str(16 << 20))
            yield directory
            return
    pytest.skip("no control groups with memory")


@pytest.mark.skipif(not os.path.exists(MEMORY), reason="this kernel keeps no pressure figures")
def test_the_kernel_wakes_who_waits_when_tasks_stall(small: Path, tmp_path: Path) -> None:
    pressure = Pressure(stall_ms=20, window_ms=2000)
    assert pressure.problem == ""
    before = pressure.look()
    assert before is not None
    command = [*ENDS_WITH_US, sys.executable, "-c", THRASH, str(small / "cgroup.procs"), str(tmp_path / "file")]
    with subprocess.Popen(command) as thrashing:
        try:
            began = time.monotonic()
            assert pressure.wait(20), pressure.look()
            assert time.monotonic() - began < 15
            after = pressure.look()
            assert after is not None
            assert after.some_seconds > before.some_seconds
        finally:
            thrashing.kill()
    pressure.close()


def test_a_killed_pod_ends_with_all_that_it_started() -> None:
    for place in mounted("cgroup2"):
        with group(place, POD) as directory, group(directory, "cri-containerd-1.scope") as scope:
            script = f"echo $$ > {scope}/cgroup.procs; trap '' TERM; sleep 600 & wait"
            with subprocess.Popen([*ENDS_WITH_US, "sh", "-c", script]) as shell:
                try:
                    until("two processes run there", lambda: len((scope / "cgroup.procs").read_text().split()) == 2)
                    assert reclaim_cgroup.kill(str(directory)) == ""
                    assert shell.wait(5) == -9
                finally:
                    shell.kill()
        return
    pytest.skip("no control groups of version 2")
