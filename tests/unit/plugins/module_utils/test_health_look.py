# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Parts that hang or break take no other part with them."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_look import Gathering


def broken() -> int:
    raise LookupError("nobody foresaw this")


def test_each_part_answers_or_says_why_not() -> None:
    forever = threading.Event()
    gathering = Gathering()
    began = time.monotonic()
    gathering.gather({"well": lambda: 7, "hung": forever.wait, "broken": broken, "none": lambda: None}, 0.3)
    assert time.monotonic() - began < 5
    assert gathering.values == {"well": 7, "none": None}
    assert gathering.blind == {"hung": "no answer within 0.3 s", "broken": "LookupError: nobody foresaw this"}
    forever.set()


def test_parts_run_side_by_side() -> None:
    together = threading.Barrier(3)
    gathering = Gathering()
    gathering.gather({str(number): lambda: together.wait(20) >= 0 for number in range(3)}, 20)
    assert gathering.values == {"0": True, "1": True, "2": True}


@pytest.mark.parametrize("second", [{}, {"later": lambda: 2}])
def test_a_second_round_keeps_the_first(second: dict[str, object]) -> None:
    gathering = Gathering()
    gathering.gather({"first": lambda: 1}, 5)
    gathering.gather(second, 5)  # type: ignore[arg-type]
    assert gathering.values["first"] == 1 and set(gathering.values) == {"first", *second}
