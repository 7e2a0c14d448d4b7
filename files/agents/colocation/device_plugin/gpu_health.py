# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether a GPU can be given to anybody, from what polls say and which errors its driver reported. Pure.

A poll that says ill makes it ill at once. A reported error does for as long as none followed for `rest_seconds` and
polls were good in that time: drivers report that something broke and never that it works again. Errors that a program
causes with its own mistakes say nothing of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# By NVIDIA's list of XIDs these come from the application: wrong addresses, its own end, preemption.
OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})


@dataclass(slots=True)
class Health:
    """What was seen of GPUs, by UUID."""

    rest_seconds: float = 60.0
    _errors: dict[str, tuple[float, str]] = field(default_factory=dict)  # the last one, and when something was wrong

    def reported(self, uuid: str, xid: int, now: float) -> bool:
        """The driver reported an error; whether it counts."""
        if xid in OF_PROGRAMS:
            return False
        self._errors[uuid] = (now, f"the driver reported XID {xid}")
        return True

    def judge(self, polled: Mapping[str, str], now: float) -> dict[str, str]:
        """Why each GPU is ill, "" if it is not. `polled` is what the poll says."""
        verdict: dict[str, str] = {}
        for uuid, ill in polled.items():
            since, why = self._errors.get(uuid, (0.0, ""))
            if why and ill:
                self._errors[uuid] = (now, why)
            elif why and now - since >= self.rest_seconds:
                del self._errors[uuid]
                why = ""
            verdict[uuid] = ill or why
        return verdict
