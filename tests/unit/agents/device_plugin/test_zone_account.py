# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The account of a zone: what is offered goes by what may come, what fits by what is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.accounting import Reading
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.zone_account import ZoneAccount

GIB = 1 << 30
TOTAL = 64 * GIB


def test_a_short_rise_lowers_the_offer_for_minutes_and_what_fits_for_as_long_as_it_lasts() -> None:
    account, seen = ZoneAccount(Memory().rules()), []
    for second in range(0, 400, 10):
        used = 20 * GIB if 100 <= second < 110 else 14 * GIB
        account.take(Reading(TOTAL, TOTAL - used), [], second)
        seen.append((account.target, account.fits))
    before, rise = (87, 87), (75, 75)
    assert seen == [*[before] * 10, rise, *[(75, 87)] * 29]


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, TOTAL)), min_size=1, max_size=30))
def test_what_fits_is_never_less_than_what_is_offered(readings: list[tuple[float, int]]) -> None:
    account, now = ZoneAccount(Memory().rules()), 0.0
    assert account.fits == 0
    for passed, available in readings:
        now += passed
        account.take(Reading(TOTAL, available), [], now)
        assert account.fits >= account.target
