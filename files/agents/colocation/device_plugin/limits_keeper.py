# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Keeps the limits of pods that hold blocks: looks at each in every round, and writes where another one stands.

Nothing is remembered but failures: the kernel says what is in force, so a restart of the agent, of a container, or of
systemd's own mind changes nothing. With a pod its cgroup goes, and its limit with it.

Telling systemd takes milliseconds, or seconds where it is ill. So a round writes for a while only and leaves the others
to the next one, those last that failed: an agent with hundreds of pods still hears signals and feeds its watchdog.
"""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping

from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.device_plugin.limits import Limit, holds

COMMAND_SECONDS = 3.0
ROUND_SECONDS = 2.0  # after these no more is written in this round
PAGE = os.sysconf("SC_PAGE_SIZE")
RETRY_SECONDS = 10.0
TOLD = 3  # problems that are told one by one
log = Log("limits")


class Keeper:
    """Used from one thread."""

    def __init__(
        self,
        registry: Registry,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._failed: dict[str, tuple[float, str]] = {}  # when and why, by cgroup
        self._limited = registry.gauge("colocation_limited_pods", "Pods held to their blocks by a limit of memory.")
        self._written = registry.counter(
            "colocation_limit_writes_total", "Limits of memory that had to be written.", ("result",)
        )
        self.problems: tuple[str, ...] = ()

    def keep(self, wanted: Iterable[Limit], now: float, alive: Callable[[], None] = lambda: None) -> None:
        """See that these limits are in force."""
        ordered = sorted(wanted, key=lambda limit: self._failed.get(limit.cgroup, (float("-inf"), ""))[0])
        seen = {limit.cgroup for limit in ordered}
        self._failed = {cgroup: failure for cgroup, failure in self._failed.items() if cgroup in seen}
        until = self._clock() + ROUND_SECONDS
        good, problems = 0, []
        for limit in ordered:
            problem = self._keep(limit, now, until)
            good += problem == ""
            if problem:
                problems.append(problem)
            alive()
        self._limited.set(good)
        more = len(problems) - TOLD
        self.problems = (*problems[:TOLD], *((f"… and {more} more pods",) if more > 0 else ()))

    def _keep(self, limit: Limit, now: float, until: float) -> str | None:
        """What is wrong with it; None where it has to wait for the next round."""
        try:
            if _in_force(limit):
                self._failed.pop(limit.cgroup, None)
                return ""
        except OSError as problem:  # ENODEV where the group went while the file was open
            return f"{limit.file} can't be read: {problem.strerror}" if os.path.isdir(limit.cgroup) else ""
        when, told = self._failed.get(limit.cgroup, (float("-inf"), ""))
        if now - when < RETRY_SECONDS:
            return _could_not(limit, told)
        if self._clock() >= until:
            return _could_not(limit, told) if told else None
        why = self._write(limit)
        self._written.add(result="failed" if why else "done")
        if why:
            self._failed[limit.cgroup] = (now, why)
            if why != told:
                log.error("a pod is not held to its blocks", cgroup=limit.cgroup, bytes=limit.bytes, why=why)
            return _could_not(limit, why)
        self._failed.pop(limit.cgroup, None)
        log.info("limited a pod to its blocks", cgroup=limit.cgroup, bytes=limit.bytes)
        return ""

    def _write(self, limit: Limit) -> str:
        """Write it; why that did not work."""
        try:
            if limit.unit:
                why = self._tell_systemd(limit)
                if why:
                    return why
            else:
                with open(limit.file, "w", encoding="ascii") as stream:
                    stream.write(str(limit.bytes))
            return "" if _in_force(limit) else "it was written, and another limit is in force"
        except OSError as problem:
            where = problem.filename or limit.file
            return f"{where}: {problem.strerror}" if os.path.isdir(limit.cgroup) else ""

    def _tell_systemd(self, limit: Limit) -> str:
        try:
            done = subprocess.run(
                limit.command,
                capture_output=True,
                check=False,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"systemctl did not answer within {COMMAND_SECONDS:g} s"
        gone = not os.path.isdir(limit.cgroup)
        return "" if done.returncode == 0 or gone else done.stderr.strip() or f"systemctl ended with {done.returncode}"


def container_limits(cgroup: str) -> tuple[int, ...]:
    """The limits of a pod's running containers that have one."""
    found = []
    for file in glob.iglob(f"{glob.escape(cgroup)}/*/memory.max"):
        with contextlib.suppress(OSError, ValueError), open(file, encoding="ascii") as stream:
            found.append(int(stream.read()))  # "max" is no number
    return tuple(found)


def _could_not(limit: Limit, why: str) -> str:
    return f"{limit.cgroup} could not be limited to {limit.bytes} bytes: {why}"


def _in_force(limit: Limit) -> bool:
    with open(limit.file, encoding="ascii") as stream:
        return holds(limit, stream.read(), PAGE)
