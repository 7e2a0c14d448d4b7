# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is learned of owners."""

from __future__ import annotations

import math

import pytest

from colocation.scheduler import learned as learned_module
from colocation.scheduler.learned import Learned
from colocation.scheduler.pods import Amount


def test_the_first_round_counts_whole_and_later_ones_in_part() -> None:
    learned = Learned()
    assert learned.use("web") is None
    learned.learn([("web", Amount(1, 100)), ("web", Amount(3, 300))])
    assert learned.use("web") == Amount(2, 200)
    learned.learn([("web", Amount(12, 700))])
    assert learned.use("web") == pytest.approx(Amount(4, 300))


@pytest.mark.parametrize("use", [Amount(math.nan, 1), Amount(1, math.inf), Amount(-1, 1)])
def test_what_is_no_measured_value_teaches_nothing(use: Amount) -> None:
    learned = Learned()
    learned.learn([("web", use)])
    assert learned.use("web") is None


def test_owners_that_were_not_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_module, "OWNERS", 2)
    learned = Learned()
    for owner in ("a", "b", "a", "c"):
        learned.learn([(owner, Amount(1, 1))])
    assert [learned.use(owner) is not None for owner in "abc"] == [True, False, True]
