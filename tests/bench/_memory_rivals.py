# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Ways to say how much memory may be offered: ours as it runs on a node, and three that others use.

Each is asked once a second with what a node shows then, and answers with bytes. How often it really looks is its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from ansible_collections.colocation.kubernetes.tests.bench._memory_traces import MIB, TOTAL
from colocation.device_plugin.accounting import Reading, Use
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.zone_account import ZoneAccount, fell

UNIT = 512 * MIB


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of the node at one moment, in bytes."""

    second: int
    available: int  # MemAvailable
    free: int  # MemFree: page cache is not free
    system: int
    prod: int  # guaranteed and burstable pods without page cache
    burstable_current: int  # memory.current of the burstable pods, page cache included
    batch: int  # what holders of blocks use and could not give back
    batch_right: int  # their blocks in bytes


class Rival(Protocol):
    name: str

    def offer(self, sight: Sight) -> int:
        """Bytes on offer now, those included that are held."""


class Ours:
    """The agent's own account, with its defaults or other settings."""

    def __init__(self, name: str, settings: Memory | None = None) -> None:
        self.name = name
        self._account = ZoneAccount((settings or Memory()).rules())
        self._refreshed, self._available = -10, 0

    def offer(self, sight: Sight) -> int:
        if sight.second - self._refreshed >= 10 or fell(self._available, sight.available, UNIT):
            use = Use(sight.batch, sight.batch_right)
            self._account.take(Reading(TOTAL, sight.available), [use], sight.second)
            self._refreshed, self._available = sight.second, sight.available
        return self._account.target * UNIT

    @property
    def fits(self) -> int:
        """Bytes that holders may keep; less is offered."""
        return self._account.fits * UNIT


class Seed:
    """free − what burstable pods use − 10 % of what is free, every 10 s."""

    name = "the seed's formula"

    def __init__(self) -> None:
        self._offer = 0

    def offer(self, sight: Sight) -> int:
        if sight.second % 10 == 0:
            self._offer = max(0, int(sight.free - sight.burstable_current - 0.1 * sight.free)) // UNIT * UNIT
        return self._offer


class Koordinator:
    """Batch memory of policy `usage`: 65 % of the capacity − the system's use − what prod pods use, averages of five
    minutes, once a minute and if it differs by a tenth or five minutes have passed."""

    name = "Koordinator's batch formula"

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=300)
        self._offer, self._written = 0, -300

    def offer(self, sight: Sight) -> int:
        self._seen.append((sight.system, sight.prod))
        if sight.second % 60 == 0:
            system, prod = (sum(part) / len(self._seen) for part in zip(*self._seen, strict=True))
            wanted = max(0, int(TOTAL - TOTAL * 0.35 - system - prod))
            differs = abs(wanted - self._offer) > 0.1 * self._offer
            if differs or sight.second - self._written >= 300:
                self._offer, self._written = wanted, sight.second
        return self._offer


class Half:
    """Half of the node, whatever happens."""

    name = "static 50 %"

    def offer(self, sight: Sight) -> int:
        return TOTAL // 2
