# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Runs tools as children that never outlive this program: each in a process group of its own, ended on the way out.

Ending is asked for first (SIGTERM, so that a test can take its machines down) and forced later. If this program is
killed outright, the kernel passes the request on to each tool (setpriv --pdeathsig).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 60.0  # a test that runs VMs needs a while to take them down

_running: set[subprocess.Popen[bytes]] = set()
_held: list[int] | None = None  # the signals that came while a child was being started; None: none is being started
_guard = threading.RLock()  # not Lock: the signal handler may find its own thread inside


class Stopped(SystemExit):
    """A signal asked this program to end; `code` is the exit status that says which."""


def run(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str], cwd: Path, pass_fds: Sequence[int] = ()
) -> int:
    """Run a command with all its output in `log`; its exit status, negative for the signal that ended it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        output.write(("$ " + " ".join(map(str, command)) + "\n").encode())
        output.flush()
        with child(command, env=env, cwd=cwd, stdout=output.fileno(), pass_fds=pass_fds) as process:
            return process.wait()


@contextmanager
def child(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    cwd: Path,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in its own process group, which is gone when the block ends."""
    process = None
    try:
        with _signals_held():  # one that came in between would leave a child that nobody knows
            process = subprocess.Popen(
                [*_passes_death_on(), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT if stdout is not None else None,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            with _guard:
                _running.add(process)
        yield process
    finally:
        if process is not None:
            end_group(process)
            with _guard:
                _running.discard(process)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Have `ended_by_signals` wait for the end of the block; it raises in the main thread only."""
    global _held
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _held = []
    try:
        yield
    finally:
        came, _held = _held, None
        for number in came[:1]:
            signal.raise_signal(number)


def _passes_death_on() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def end_group(process: subprocess.Popen[bytes], grace: float = GRACE_SECONDS) -> None:
    """End a child and whatever is left of its process group."""
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            pass
    # The leader is gone or deaf; what it left behind has no reason to run on.
    if _signal_group(process, signal.SIGTERM):
        deadline = time.monotonic() + 2
        while _signal_group(process, 0) and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.02)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def end_all() -> None:
    """Ask all children to end, those of other threads too; who started one waits for it."""
    with _guard:
        running = list(_running)
    for process in running:
        _signal_group(process, signal.SIGTERM)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether the group still had a member to be signalled."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn the signals that end a program into `Stopped`, so that every `finally` runs; children are told at once."""

    def stop(number: int, _frame: FrameType | None) -> None:
        if _held is not None:
            _held.append(number)
            return
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        end_all()
        raise Stopped(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
