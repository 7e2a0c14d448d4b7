# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The waits between tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colocation.common.retry import Backoff


def test_waits_double_up_to_the_most_and_end() -> None:
    backoff = Backoff(first=1, most=5, tries=5)
    assert [backoff.wait(n, 1.0) for n in range(1, 6)] == [1, 2, 4, 5, None]
    assert backoff.wait(1, 0.0) == 0.5


def test_what_the_server_asks_for_is_the_least_within_reason() -> None:
    backoff = Backoff(first=1, most=5, tries=5)
    assert backoff.wait(1, 1.0, asked=3) == 3
    assert backoff.wait(1, 1.0, asked=3600) == 5


@given(st.integers(1, 10_000), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_a_wait_is_never_longer_than_the_most(failures: int, chance: float, asked: float | None) -> None:
    wait = Backoff(tries=20_000).wait(failures, chance, asked)
    assert wait is not None
    assert 0 < wait <= 10
