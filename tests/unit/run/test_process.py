# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Children never outlive the program, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import process

GRANDCHILD = "sleep 600 & echo $! > {pid}; wait"
ENGINE = """
import os, sys
from pathlib import Path
from ansible_collections.colocation.kubernetes.tests.run import process
try:
    with process.ended_by_signals():
        process.run(["sh", "-c", sys.argv[1]], Path(sys.argv[2]), env=os.environ, cwd=Path("/"))
except process.Stopped as stopped:
    sys.exit(stopped.code)
"""


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline, f"{path} was not written in time"
        time.sleep(0.01)
    return int(path.read_text())


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_output_and_status_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "step.log"
    status = process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], log, env=os.environ, cwd=tmp_path)
    assert status == 3
    assert log.read_text().splitlines()[1:] == ["out", "err"]


def test_what_a_finished_child_left_running_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    process.run(["sh", "-c", f"sleep 600 & echo $! > {pid}"], tmp_path / "log", env=os.environ, cwd=tmp_path)
    wait_until_gone(wait_for(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_children_first(number: signal.Signals, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", ENGINE, GRANDCHILD.format(pid=pid), tmp_path / "log"]) as engine:
        grandchild = wait_for(pid)
        engine.send_signal(number)
        assert engine.wait(20) == 128 + number
        wait_until_gone(grandchild)


def test_a_signal_that_comes_while_a_child_is_started_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    start = subprocess.Popen

    def slow(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        child = start(*arguments, **options)
        wait_for(pid)
        signal.raise_signal(signal.SIGTERM)
        return child

    monkeypatch.setattr(subprocess, "Popen", slow)
    with pytest.raises(process.Stopped), process.ended_by_signals():
        process.run(["sh", "-c", GRANDCHILD.format(pid=pid)], tmp_path / "log", env=os.environ, cwd=tmp_path)
    wait_until_gone(wait_for(pid))


def test_children_are_told_when_the_program_is_killed_outright(tmp_path: Path) -> None:
    told, pid = tmp_path / "told", tmp_path / "pid"
    script = f"trap 'touch {told}; exit' TERM; echo $$ > {pid}; while :; do sleep 0.05; done"
    with subprocess.Popen([sys.executable, "-c", ENGINE, script, tmp_path / "log"]) as engine:
        child = wait_for(pid)
        engine.kill()
        engine.wait(20)
        wait_until_gone(child)
    assert told.exists()


def test_a_child_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {pid}; while :; do sleep 0.05; done"
    with process.child(["sh", "-c", script], env=os.environ, cwd=tmp_path, stdout=subprocess.DEVNULL) as deaf:
        wait_for(pid)
        process.end_group(deaf, grace=0.2)
        assert deaf.returncode == -signal.SIGKILL
