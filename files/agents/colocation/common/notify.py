# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Telling systemd how the service is: the sd_notify protocol, datagrams of KEY=value lines."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping


class Notifier:
    """Says nothing where no service manager listens; one that is gone is no reason to stop working."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self.watchdog_seconds = watchdog_seconds
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self, status: str = "") -> None:
        """Started, or done with a reload."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """A reload begins; ends with `ready`. systemd wants the time, to tell it from earlier ones."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str = "") -> None:
        """The end begins."""
        self._send("STOPPING=1", _status(status))

    def status(self, status: str) -> None:
        """One line for `systemctl status`."""
        self._send(_status(status))

    def watchdog(self) -> None:
        """Still alive; to be called at least every half of `watchdog_seconds`."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        message = "\n".join(line for line in lines if line).encode(errors="replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
                speaker.settimeout(1)
                speaker.sendto(message, self._address)
        except OSError:
            pass  # nobody listens any more


def from_environment(environ: MutableMapping[str, str] | None = None, pid: int | None = None) -> Notifier:
    """What systemd told this process; taken out of the environment, so that no child speaks for us."""
    environ = os.environ if environ is None else environ
    address = environ.pop("NOTIFY_SOCKET", "")
    microseconds = environ.pop("WATCHDOG_USEC", "")
    for_whom = environ.pop("WATCHDOG_PID", "")
    meant = for_whom in ("", str(os.getpid() if pid is None else pid))
    watched = meant and microseconds.isdigit() and int(microseconds) > 0
    return Notifier(address, int(microseconds) / 1e6 if watched else None)


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split()) if text.strip() else ""
