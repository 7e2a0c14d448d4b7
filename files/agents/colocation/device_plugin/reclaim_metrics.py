# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the reclaim counts."""

from __future__ import annotations

from colocation.common.metrics import Registry
from colocation.device_plugin.pressure import Stalls
from colocation.device_plugin.reclaim import Action, Level, Rung

RESULTS = ("done", "gone", "refused", "failed", "dry run")
BOUNDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0)


class ReclaimMetrics:
    """The reclaim's part of the metrics; any thread may count."""

    def __init__(self, registry: Registry) -> None:
        self._rounds = registry.counter("colocation_reclaim_rounds_total", "Looks at the pods, by level.", ("level",))
        self._actions = registry.counter(
            "colocation_reclaim_actions_total", "What was done to pods to take memory back.", ("rung", "result")
        )
        self._bytes = registry.counter(
            "colocation_reclaim_bytes_total", "Memory that actions that were done should bring.", ("rung",)
        )
        self._stalled = registry.gauge(
            "colocation_memory_stalled_seconds", "Time since the boot in which a task stalled for want of memory."
        )
        self.triggers = registry.counter("colocation_memory_triggers_total", "Times that the kernel told of pressure.")
        self.first_action = registry.histogram(
            "colocation_reclaim_reaction_seconds", "From the look that found too little to the first action.", BOUNDS
        )

        for rung in Rung:  # a count that begins with its first event has not increased, as Prometheus sees it
            for result in RESULTS:
                self._actions.add(0, rung=rung.value, result=result)

    def round(self, level: Level) -> None:
        self._rounds.add(level=level.value)

    def action(self, action: Action, result: str) -> None:
        self._actions.add(rung=action.rung.value, result=result)
        if result == "done":
            self._bytes.add(action.amount, rung=action.rung.value)

    def stalls(self, stalls: Stalls) -> None:
        self._stalled.set(stalls.some_seconds)
