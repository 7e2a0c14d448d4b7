# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A cluster's own world, seen from outside: its namespaces, its bridge, the processes in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .command import program, run
from .say import ClusterError, tail, wait_until

GATEWAY = "10.77.0.1"  # the control plane's address; the same in every cluster, for each has its own network
PACKAGE = Path(__file__).resolve().parent
_opened: dict[Path, subprocess.Popen[bytes]] = {}  # by this process; they outlive it, or are reaped on closing


def node_address(index: int) -> str:
    """The address of node number `index`, counted from 1."""
    return f"10.77.0.{10 + index}"


@dataclass(frozen=True, slots=True)
class World:
    """The namespaces of one cluster; `folder` holds its state."""

    folder: Path

    @property
    def pid(self) -> int | None:
        """The first process's id as we see it, or None when the world has ended."""
        try:
            pid, started = (self.folder / "init.pid").read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if start_time(int(pid)) == started else None

    def open(self, owner: int | None) -> None:
        """Make the world; it ends with `owner`, if one is named, or when it is closed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        watch = os.pidfd_open(owner) if owner is not None else None
        # --mount-proc keeps its mount to itself, and there is no other; in a chroot nothing is mounted at / to change.
        argv = [
            program("unshare"), "--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child",
            "--propagation=unchanged", sys.executable, str(PACKAGE / "init.py"), str(self.folder / "init.sock"),
            *([str(watch)] if watch is not None else []),
        ]  # fmt: skip
        with (self.folder / "init.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[watch] if watch is not None else [],
            )
        _opened[self.folder] = process
        if watch is not None:
            os.close(watch)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

        def explain() -> str:
            return tail(self.folder / "init.log")

        wait_until("the cluster's namespaces", lambda: bool(_read(children)) or process.poll() is not None, 10, explain)
        pid = _read(children).split()[0] if _read(children) else "0"
        (self.folder / "init.pid").write_text(f"{pid} {start_time(int(pid))}")
        wait_until("the cluster's first process", lambda: self.pid is not None and self._answers(), 10, explain)
        self._set_up_network()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, ValueError, ClusterError):
            self.ask({"status": {}})
            return True
        return False

    def _set_up_network(self) -> None:
        for line in (
            "link set lo up",
            "link add cluster0 type bridge",
            f"address add {GATEWAY}/24 dev cluster0",
            "link set cluster0 up",
            *(f"route add 10.244.{index}.0/24 via {node_address(index)}" for index in range(1, 10)),
        ):
            self.run(["ip", *line.split()], f"ip {line}")

    def add_tap(self, name: str) -> None:
        """A network card's other end, on the bridge."""
        for line in (f"tuntap add {name} mode tap", f"link set {name} master cluster0", f"link set {name} up"):
            self.run(["ip", *line.split()], f"ip {line}")

    def remove_tap(self, name: str) -> None:
        with contextlib.suppress(ClusterError):
            self.run(["ip", "link", "delete", name], f"remove {name}")

    def inside(self, argv: Sequence[str | Path]) -> list[str]:
        """The command line that runs `argv` in the cluster's network."""
        if self.pid is None:
            raise ClusterError(f"the cluster {self.folder.name} does not run; see: cluster status")
        return [program("nsenter"), f"--net=/proc/{self.pid}/ns/net", *map(str, argv)]

    def run(
        self, argv: Sequence[str | Path], what: str, *, env: Mapping[str, str] | None = None, stdin: str | None = None,
        limit: float = 120,
    ) -> str:  # fmt: skip
        """Run a program in the cluster's network."""
        return run(self.inside([program(str(argv[0])), *argv[1:]]), what, env=env, stdin=stdin, limit=limit)

    def start(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Start a process that lives as long as the cluster; its output goes to NAME.log."""
        words = [program(str(argv[0])), *map(str, argv[1:])]
        log = str(self.folder / f"{name}.log")
        reply = self.ask({"start": {"name": name, "argv": words, "log": log, "env": dict(env or {})}})
        if "error" in reply:
            raise ClusterError(f"start {name}: {reply['error']}")

    def stop(self, name: str, limit: float = 30) -> None:
        """End a process, gently first."""
        self.ask({"signal": {"name": name, "number": int(signal.SIGTERM)}})
        try:
            wait_until(f"the end of {name}", lambda: not self.runs(name), limit)
        except ClusterError:
            self.ask({"signal": {"name": name, "number": int(signal.SIGKILL)}})
            wait_until(f"the end of {name}", lambda: not self.runs(name), 10)

    def runs(self, name: str) -> bool:
        """Whether a process of that name was started and has not ended."""
        statuses = self.ask({"status": {}})
        return name in statuses and statuses[name] is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One question to the first process, one answer."""
        descriptor = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(f"/proc/self/fd/{descriptor}/init.sock")
                with connection.makefile("rw") as stream:
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()
                    answer: dict[str, Any] = json.loads(stream.readline())
                    return answer
        except (OSError, ValueError) as error:
            raise ClusterError(f"the cluster {self.folder.name} does not answer: {error}") from None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """End everything in the world and forget its state."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)  # a namespace's first process takes all others with it
            wait_until("the end of the cluster's processes", lambda: self.pid is None, 30)
        process = _opened.pop(self.folder, None)
        if process is not None:
            process.wait(30)
        for dummy in range(20):  # the kernel lets go of files a moment after the process is gone
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)
        raise ClusterError(f"cannot remove {self.folder}")


def start_time(pid: int) -> str:
    """When a process began, so that a reused process id is not mistaken for it; "" when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
