# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The account of one zone: readings go in, the number of blocks that may be offered comes out. Pure.

It puts together what `accounting` and `hysteresis` know, and remembers what they need: the readings of a window and the
offer that stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from colocation.device_plugin import hysteresis
from colocation.device_plugin.accounting import Estimate, Expectation, Margins, Reading, Use, online, room
from colocation.device_plugin.hysteresis import Damping, Offer


@dataclass(frozen=True, slots=True)
class Rules:
    """All that is configured about a zone."""

    unit: int  # bytes of a block
    margins: Margins = Margins()
    estimate: Estimate = Estimate()
    damping: Damping = Damping()


class ZoneAccount:
    """What is known of a zone; before the first reading nothing is offered."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.reading = Reading(0, 0)
        self.online = 0
        self.expected = 0
        self.offer: Offer | None = None
        self._expectation = Expectation(rules.estimate)

    @property
    def target(self) -> int:
        """Blocks that may be offered, those included that are held."""
        return self.offer.blocks if self.offer else 0

    @property
    def fits(self) -> int:
        """Blocks that there is memory for beside what is used online now: what is expected holds nobody's blocks."""
        return room(self.reading, self.online, self.rules.margins) // self.rules.unit

    def change(self, rules: Rules) -> None:
        """Go by other rules; the unit stays."""
        if rules.estimate != self.rules.estimate:
            self._expectation = Expectation(rules.estimate)
        self.rules = rules

    def take(self, reading: Reading, uses: Iterable[Use], now: float) -> int:
        """Take a reading; how many blocks more are offered than before, or fewer."""
        rules, before = self.rules, self.offer
        self.reading, self.online = reading, online(reading, uses)
        self.expected = self._expectation.after(self.online, now)
        fits = room(reading, self.expected, rules.margins) / rules.unit
        self.offer = hysteresis.step(before, fits, now, rules.damping) if before else hysteresis.begin(fits, now)
        return self.offer.blocks - before.blocks if before else 0


def fell(before: int, available: int, unit: int) -> bool:
    """Whether so much went away since the last reading that the next can't be waited for."""
    return before - available >= unit
