# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What went wrong on the way, and passed as it was: counted each time, and told once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from colocation.common.journal import Log
from colocation.common.metrics import Registry

QUIET_SECONDS = 60.0
PARTS = ("policy", "message", "headers", "frames", "relay")
log = Log("cri_proxy")


class Trouble:
    """Takes note of problems, by the part that had them."""

    def __init__(self, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._failed = registry.counter(
            "colocation_cri_fail_open_total", "Errors for which something passed as the kubelet sent it.", ("part",)
        )
        for part in PARTS:  # a count that begins with its first event has not increased, as Prometheus sees it
            self._failed.add(0, part=part)
        self._clock = clock
        self._told: dict[tuple[str, type], float] = {}

    def note(self, part: str, problem: Exception) -> None:
        self._failed.add(part=part)
        now = self._clock()
        what = (part, type(problem))
        if now - self._told.get(what, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        self._told[what] = now
        error = f"{type(problem).__name__}: {problem}"
        log.error(
            "something went wrong and passes as the kubelet sent it", part=part, error=error, trace=_where(problem)
        )


def _where(problem: Exception) -> str:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
