# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Keeps the limits of pods that hold blocks: looks at each in every round, and writes where another one stands.

Nothing is remembered but failures: the kernel says what is in force, so a restart of the agent, of a container, or of
systemd's own mind changes nothing. With a pod its cgroup goes, and its limit with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping

from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.device_plugin.limits import Limit, holds

COMMAND_SECONDS = 5.0
PAGE = os.sysconf("SC_PAGE_SIZE")
RETRY_SECONDS = 10.0
log = Log("limits")


class Keeper:
    """Used from one thread."""

    def __init__(self, registry: Registry, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._failed: dict[str, float] = {}  # when, by cgroup
        self._limited = registry.gauge("colocation_limited_pods", "Pods held to their blocks by a limit of memory.")
        self._written = registry.counter(
            "colocation_limit_writes_total", "Limits of memory that had to be written.", ("result",)
        )
        self.problems: tuple[str, ...] = ()

    def keep(self, wanted: Iterable[Limit], now: float, alive: Callable[[], None] = lambda: None) -> None:
        """See that these limits are in force."""
        good, problems = 0, []
        seen = set()
        for limit in wanted:
            seen.add(limit.cgroup)
            problem = self._keep(limit, now)
            good += not problem
            if problem:
                problems.append(problem)
            alive()
        self._failed = {cgroup: when for cgroup, when in self._failed.items() if cgroup in seen}
        self._limited.set(good)
        self.problems = tuple(problems)

    def _keep(self, limit: Limit, now: float) -> str:
        """What is wrong with it."""
        try:
            if _in_force(limit):
                self._failed.pop(limit.cgroup, None)
                return ""
        except FileNotFoundError:
            return ""  # the pod is gone
        except OSError as problem:
            return f"{limit.file} can't be read: {problem.strerror}"
        if now - self._failed.get(limit.cgroup, float("-inf")) < RETRY_SECONDS:
            return f"{limit.cgroup} could not be limited to {limit.bytes} bytes; the log says why"
        why = self._write(limit)
        self._written.add(result="failed" if why else "done")
        if why:
            self._failed[limit.cgroup] = now
            log.error("a pod is not held to its blocks", cgroup=limit.cgroup, bytes=limit.bytes, why=why)
            return f"{limit.cgroup} could not be limited to {limit.bytes} bytes: {why}"
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
        except FileNotFoundError as problem:
            return "" if not os.path.isdir(limit.cgroup) else f"{problem.filename}: {problem.strerror}"
        except OSError as problem:
            return f"{limit.file}: {problem.strerror}"

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


def _in_force(limit: Limit) -> bool:
    with open(limit.file, encoding="ascii") as stream:
        return holds(limit, stream.read(), PAGE)
