# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import (
    parse_chronyc,
    parse_timedatectl,
    read_clock,
    skew,
)

CHRONY = "A29FC87B,time.example,3,1767225600.1,0.0,0.0,0.0,1.1,0.0,0.0,0.0,0.0,64.5,{leap}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Timezone=UTC\nNTP=yes\nNTPSynchronized=yes\n", True),
        ("NTPSynchronized=no\n", False),
        ("NTP=yes\n", None),
        ("NTPSynchronized=\n", None),
    ],
)
def test_timedatectl(text: str, said: bool | None) -> None:
    assert parse_timedatectl(text) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CHRONY.format(leap="Normal"), True),
        (CHRONY.format(leap="Insert second"), True),
        (CHRONY.format(leap="Not synchronised"), False),
        ("506 Cannot talk to daemon\n", None),
    ],
)
def test_chronyc(text: str, said: bool | None) -> None:
    assert parse_chronyc(text) is said


@pytest.mark.parametrize(
    ("timedatectl", "chronyc", "said", "told_by"),
    [
        ("NTPSynchronized=yes\n", None, True, "timedatectl"),
        ("NTPSynchronized=no\n", CHRONY.format(leap="Normal"), True, "chronyc"),
        ("NTPSynchronized=no\n", None, False, "timedatectl"),
        (None, CHRONY.format(leap="Not synchronised"), False, "chronyc"),
        (None, None, None, ""),
    ],
)
def test_one_yes_is_enough(timedatectl: str | None, chronyc: str | None, said: bool | None, told_by: str) -> None:
    answers = {"timedatectl": timedatectl, "chronyc": chronyc}

    def run(command: list[str]) -> tuple[int, str, str]:
        out = answers[command[0]]
        return (127, "", "not there") if out is None else (0, out, "")

    clock = read_clock(run)
    assert (clock.synchronized, clock.told_by) == (said, told_by)


times = st.floats(min_value=0, max_value=4e9)


@given(times, st.floats(min_value=0, max_value=600), st.floats(min_value=-1e6, max_value=1e6))
def test_skew_is_what_the_delay_cannot_explain(before: float, delay: float, offset: float) -> None:
    """With any moment of reading between the two, skew is never more than the true offset, nor of the other sign."""
    after = before + delay
    for share in (0.0, 0.5, 1.0):
        measured = skew(before, before + share * delay + offset, after)
        assert abs(measured) <= abs(offset) + 1e-3
        assert measured * offset >= 0
        assert abs(offset) - abs(measured) <= delay + 1e-3
