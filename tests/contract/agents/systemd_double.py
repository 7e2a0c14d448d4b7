# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of systemd for one service: it answers systemctl, and really starts, watches and restarts the process.

The unit's ExecStart and WorkingDirectory count, and READY=1; nothing of its sandbox does (a scenario in VMs has it).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

RESTART_SECONDS = 0.3


class SystemdDouble:
    """Called like Ansible's `run_command`; other programs than systemctl and journalctl are run."""

    def __init__(self, root: Path, unit: str) -> None:
        self.file = root / "etc/systemd/system" / unit
        self.file.parent.mkdir(parents=True)
        self.log = root / "journal"
        self.enabled = False
        self.loaded = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.crashes = 0
        self.restart_at: float | None = None
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(root / "notify"))
        self._notify.setblocking(False)

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "journalctl":
            return 0, "\n".join(self.log.read_text().splitlines()[-25:]), ""
        if command[0] != "systemctl":
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        return self._systemctl(command[1])

    def close(self) -> None:
        self._end()
        self._notify.close()

    def _systemctl(self, verb: str) -> tuple[int, str, str]:
        if verb == "show":
            return 0, self._show(), ""
        if verb == "daemon-reload":
            self.loaded = self.file.read_text() if self.file.exists() else ""
        elif verb in ("enable", "disable"):
            self.enabled = verb == "enable"
        elif verb == "reset-failed":
            self.crashes = 0
        elif verb == "stop":
            self._end()
        elif verb == "restart":
            self._end()
            self._begin()
        else:
            return 1, "", f"the double knows no {verb}"
        return 0, "", ""

    def _show(self) -> str:
        self._look()
        active, sub, pid = "inactive", "dead", 0
        if self.process is not None:
            active, sub = ("active", "running") if self.ready else ("activating", "start")
            pid = self.process.pid
        elif self.restart_at is not None:
            active, sub = "activating", "auto-restart"
        there = self.file.exists()
        return (
            f"Type=notify\nLoadState={'loaded' if there else 'not-found'}\nActiveState={active}\nSubState={sub}\n"
            f"UnitFileState={('enabled' if self.enabled else 'disabled') if there else ''}\nMainPID={pid}\n"
            f"NRestarts={self.crashes}\nResult=exit-code\nJob={int(active == 'activating' and pid > 0)}\n"
        )

    def _look(self) -> None:
        """What happened meanwhile."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.ready |= b"READY=1" in self._notify.recv(4096)
        if self.process is not None and self.process.poll() is not None:
            self.process, self.ready = None, False
            self.restart_at = time.monotonic() + RESTART_SECONDS
        if self.restart_at is not None and time.monotonic() >= self.restart_at:
            self.crashes += 1
            self._begin()

    def _begin(self) -> None:
        def setting(key: str) -> str:
            found = re.search(rf"^{key}=(.*)$", self.loaded, re.MULTILINE)
            assert found is not None, f"{key} in {self.loaded}"
            return found[1]

        self.restart_at, self.ready = None, False
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(self._notify.getsockname())}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                shlex.split(setting("ExecStart")), cwd=setting("WorkingDirectory"), env=environment, stdout=log,
                stderr=log,
            )  # fmt: skip

    def _end(self) -> None:
        process, self.process, self.restart_at, self.ready = self.process, None, None, False
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
