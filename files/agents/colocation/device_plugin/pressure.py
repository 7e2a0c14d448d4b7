# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kernel's word that tasks stand still for want of memory (PSI): a trigger to wait for, and the figures.

A trigger is a line written into the pressure file; the kernel then raises POLLPRI, at most once a window. Linux before
6.5 takes a trigger only from who has CAP_SYS_RESOURCE, later ones take from others only windows of whole two seconds.
Where there is none the wait is a plain one, and `problem` says why.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Sequence
from dataclasses import dataclass

from colocation.common.journal import Log

UNPRIVILEGED_MS = 2000
MEMORY = "/proc/pressure/memory"
_AVERAGE = re.compile(r"^(some|full) avg10=([0-9.]+) .*total=(\d+)$", re.MULTILINE)
log = Log("reclaim")


@dataclass(frozen=True, slots=True)
class Stalls:
    """How much tasks stood still."""

    some: float  # percent of the last ten seconds in which at least one did …
    full: float  # … and in which all did
    some_seconds: float = 0.0  # since the boot


def parse(text: str) -> Stalls | None:
    """The figures of a pressure file."""
    found = {kind: (float(average), int(total)) for kind, average, total in _AVERAGE.findall(text)}
    if "some" not in found:
        return None
    some, total = found["some"]
    return Stalls(some, found.get("full", (0.0, 0))[0], total / 1e6)


def triggers(stall_ms: int, window_ms: int) -> tuple[str, str]:
    """What is written into the file: as wanted, and the same share of the next window that takes no capability."""
    slow = -(-window_ms // UNPRIVILEGED_MS) * UNPRIVILEGED_MS
    return f"some {stall_ms * 1000} {window_ms * 1000}", f"some {stall_ms * 1000 * slow // window_ms} {slow * 1000}"


class Pressure:
    """A trigger on one pressure file, and a way to be woken from the wait for it."""

    def __init__(self, stall_ms: int, window_ms: int, file: str = MEMORY) -> None:
        self.problem = ""  # why there is no trigger
        self._file = file
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake_read, select.POLLIN)
        self._trigger: int | None = None
        self._begin(triggers(stall_ms, window_ms))

    def wait(self, seconds: float) -> bool:
        """Until the kernel says that tasks stall (True), somebody calls `wake`, or the time is over."""
        stalled = False
        for descriptor, events in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif events & (select.POLLERR | select.POLLNVAL | select.POLLHUP):
                self._lose("the kernel took the trigger away")
            else:
                stalled = stalled or bool(events & select.POLLPRI)
        return stalled

    def wake(self) -> None:
        """End a wait, from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"x")

    def look(self) -> Stalls | None:
        """The figures now, or nothing where the kernel keeps none."""
        try:
            with open(self._file, encoding="ascii") as stream:
                return parse(stream.read())
        except (OSError, UnicodeDecodeError):
            return None

    def close(self) -> None:
        if self._trigger is not None:
            os.close(self._trigger)
            self._trigger = None
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    def _begin(self, lines: Sequence[str]) -> None:
        for line in lines:
            descriptor = -1
            try:
                descriptor = os.open(self._file, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                os.write(descriptor, line.encode() + b"\0")
            except OSError as problem:
                if descriptor >= 0:
                    os.close(descriptor)
                why = f"{self._file}: {problem.strerror}"
            else:
                self._trigger = descriptor
                self._poll.register(descriptor, select.POLLPRI)
                return
        self._lose(why)

    def _lose(self, why: str) -> None:
        if self._trigger is not None:
            self._poll.unregister(self._trigger)
            os.close(self._trigger)
            self._trigger = None
        self.problem = why
        log.warning("the kernel does not tell of memory pressure, so it is looked for each second", why=why)
