# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether a GPU can be given to anybody, from what polls say and which errors its driver reported. Pure.

A poll that says ill makes it ill at once. A reported error does for as long as none followed for `rest_seconds` and
polls were good in that time: drivers report that something broke and never that it works again. After an error that
needs a reset, time alone makes nothing well: the GPU has to be begun anew first. Errors that a program causes with its
own mistakes say nothing of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# By NVIDIA's list of XIDs these come from the application: wrong addresses, its own end, preemption.
OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
# By the same list the GPU is to be reset after these, or the node. For 48 that depends on what follows.
NEED_RESET = frozenset({46, 48, 62, 64, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158})


@dataclass(slots=True)
class Trouble:
    """An error that was reported."""

    xid: int
    since: float  # when something was wrong the last time
    lasts: bool  # however long it was quiet since

    @property
    def why(self) -> str:
        return f"the driver reported XID {self.xid}" + (", which needs a reset" if self.lasts else "")


@dataclass(slots=True)
class Health:
    """What was seen of GPUs, by UUID."""

    rest_seconds: float = 60.0
    _troubles: dict[str, Trouble] = field(default_factory=dict)

    def reported(self, uuid: str, xid: int, now: float) -> bool:
        """The driver reported an error; whether it counts."""
        if xid in OF_PROGRAMS:
            return False
        trouble = self._troubles.get(uuid)
        if trouble and trouble.lasts:
            trouble.since = now
        else:
            self._troubles[uuid] = Trouble(xid, now, xid in NEED_RESET)
        return True

    def begun_anew(self, uuid: str) -> None:
        """The GPU may have had its reset, so from now on time tells."""
        if uuid in self._troubles:
            self._troubles[uuid].lasts = False

    def judge(self, polled: Mapping[str, str], now: float) -> dict[str, str]:
        """Why each GPU is ill, "" if it is not. `polled` is what the poll says."""
        verdict: dict[str, str] = {}
        for uuid, ill in polled.items():
            trouble = self._troubles.get(uuid)
            if trouble and ill:
                trouble.since = now
            elif trouble and not trouble.lasts and now - trouble.since >= self.rest_seconds:
                del self._troubles[uuid]
                trouble = None
            verdict[uuid] = ill or (trouble.why if trouble else "")
        return verdict
