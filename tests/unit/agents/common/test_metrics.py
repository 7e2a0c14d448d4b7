# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Metrics as Prometheus reads them."""

from __future__ import annotations

import math
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.metrics import Registry

SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')


def test_a_family_has_its_meaning_kind_and_values() -> None:
    registry = Registry()
    gauge = registry.gauge("devices", "Devices\nof a \\ resource.", ("resource",))
    gauge.set(10, resource="mock.com/gpu")
    gauge.set(0.5, resource='a"b\\c\nd')
    registry.counter("rounds_total", "Rounds.").add()
    assert registry.render() == (
        "# HELP devices Devices\\nof a \\\\ resource.\n"
        "# TYPE devices gauge\n"
        'devices{resource="a\\"b\\\\c\\nd"} 0.5\n'
        'devices{resource="mock.com/gpu"} 10\n'
        "# HELP rounds_total Rounds.\n"
        "# TYPE rounds_total counter\n"
        "rounds_total 1\n"
    )


def test_a_histogram_counts_up_to_each_bound() -> None:
    registry = Registry()
    histogram = registry.histogram("wait_seconds", "Waits.", (0.1, 1))
    for value in (0.1, 0.5, 3):
        histogram.observe(value)
    assert registry.render().splitlines()[2:] == [
        'wait_seconds_bucket{le="0.1"} 1',
        'wait_seconds_bucket{le="1"} 2',
        'wait_seconds_bucket{le="+Inf"} 3',
        "wait_seconds_sum 3.6",
        "wait_seconds_count 3",
    ]


def test_what_is_no_more_is_left_out() -> None:
    registry = Registry()
    gauge = registry.gauge("devices", "Devices.", ("resource",))
    gauge.set(1, resource="a")
    gauge.forget(resource="a")
    gauge.forget(resource="b")
    assert registry.render().splitlines()[2:] == []


def test_mistakes_of_ours_are_found_at_once() -> None:
    registry = Registry()
    counter = registry.counter("a_total", "A.", ("b",))
    with pytest.raises(ValueError, match="no names"):
        registry.gauge("a-b", "A.")
    with pytest.raises(ValueError, match="no names"):
        registry.gauge("c", "C.", ("__d",))
    with pytest.raises(ValueError, match="already"):
        registry.gauge("a_total", "A.")
    with pytest.raises(ValueError, match="labels"):
        counter.add(c="x")
    with pytest.raises(ValueError, match="shrink"):
        counter.add(-1, b="x")
    with pytest.raises(ValueError, match="grow"):
        registry.histogram("h", "H.", (2, 1))


def test_threads_lose_no_count() -> None:
    counter = Registry().counter("a_total", "A.")
    threads = [threading.Thread(target=lambda: [counter.add() for _n in range(2000)]) for _t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value() == 8000


def test_what_is_measured_when_asked_is_up_to_date() -> None:
    registry = Registry()
    gauge = registry.gauge("now", "Now.")
    times = iter((1.0, 2.0))
    registry.before_rendering(lambda: gauge.set(next(times)))
    assert [registry.render().splitlines()[-1] for _n in range(2)] == ["now 1", "now 2"]


@given(st.text(), st.floats())
def test_any_value_makes_one_line_that_can_be_read_back(label: str, value: float) -> None:
    registry = Registry()
    registry.gauge("a", "A.", ("b",)).set(value, b=label)
    line = registry.render().removeprefix("# HELP a A.\n# TYPE a gauge\n").removesuffix("\n")
    found = SAMPLE.fullmatch(line)
    assert found is not None
    assert found[3] == "NaN" if math.isnan(value) else float(found[3]) == value
    shown = found[2].removeprefix('b="').removesuffix('"')
    assert re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), shown) == label
