# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent as a process of its own, with a double of systemd's notification socket."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import colocation
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from colocation.common import status_client
from colocation.common.status import Status

PACKAGES = Path(colocation.__file__).parent.parent
WATCHDOG = 6


def until(what: str, holds: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class AgentProcess:
    """Runs until `end`."""

    def __init__(
        self, directory: Path, config: str, interpreter: str = sys.executable, module: str = "device_plugin"
    ) -> None:
        self.port = free_port()
        self.file = directory / "agent.yaml"
        self.configure(config)
        self.log_file = directory / "agent.log"
        self._systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._systemd.bind(str(directory / "notify"))
        self._systemd.setblocking(False)
        self.told: list[str] = []
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(PACKAGES),
            "NOTIFY_SOCKET": str(directory / "notify"),
            "WATCHDOG_USEC": str(WATCHDOG * 1_000_000),
        }
        command = [interpreter, "-m", f"colocation.{module}", "--config", str(self.file)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen([*ENDS_WITH_US, *command], stdout=log, stderr=log, env=environment)

    def configure(self, config: str) -> None:
        self.file.write_text(f"status: {{port: {self.port}}}\n{config}")

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def log(self) -> str:
        return self.log_file.read_text()

    def status(self) -> Status:
        return status_client.ask("127.0.0.1", self.port)

    def notified(self, line: str) -> bool:
        """Whether systemd was told that line."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.told += self._systemd.recv(4096).decode().splitlines()
        return line in self.told

    def share_of_a_processor(self, over: float = 5) -> float:
        """What it takes while nothing happens; somebody has to read what it tells systemd."""
        used, began = self._seconds_used(), time.monotonic()
        until("the time is over", lambda: self.notified("STOPPING=1") or time.monotonic() - began > over)
        return (self._seconds_used() - used) / (time.monotonic() - began)

    def _seconds_used(self) -> float:
        """By the scheduler's clock: who runs a moment each second is never there when ticks are counted."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def end(self) -> int:
        """SIGTERM; the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(15)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def close(self) -> None:
        """End it if it still runs, and stop listening."""
        if self.process.poll() is None:
            self.end()
        self._systemd.close()
