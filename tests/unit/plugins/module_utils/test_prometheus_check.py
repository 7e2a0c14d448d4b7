# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is found missing in a Prometheus' answers, on a double; with a real one: tests/contract/monitoring."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._prometheus import PrometheusError, Series
from ansible_collections.colocation.kubernetes.plugins.module_utils._prometheus_check import Finding, Wanted, check

WANTED = Wanted({"memory": "mem"}, "node", "percent", {"w1": "10.0.0.1", "w2": "10.0.0.2"})
INPUT = "count by (instance, node) (node_memory_MemAvailable_bytes)"


class AnswersDouble:
    """Series by their query; what is recorded and scraped."""

    def __init__(self, **series: list[Series]) -> None:
        self.series = dict(series)
        self.rules: dict[str, str] = {}
        self.scraped: list[dict[str, Any]] | None = []

    def query(self, expression: str) -> list[Series]:
        return self.series.get(expression, [])

    def recorded(self) -> dict[str, str]:
        return self.rules

    def targets(self) -> list[dict[str, Any]]:
        if self.scraped is None:
            raise PrometheusError("404")
        return self.scraped


def of(node: str, value: float = 40.0, **labels: str) -> Series:
    return Series({**({"node": node} if node else {}), **labels}, value)


def only(answers: AnswersDouble, wanted: Wanted = WANTED) -> Finding:
    (finding,) = check(answers, wanted)
    return finding


def test_nothing_is_missing() -> None:
    assert check(AnswersDouble(mem=[of("w1"), of("w2", 0.0)]), WANTED) == []
    assert check(AnswersDouble(mem=[of("w1"), of("w2"), of("another")]), WANTED) == []


def test_nobody_scrapes() -> None:
    assert "neither has node_memory_MemAvailable_bytes" in only(AnswersDouble()).what


def test_nobody_records() -> None:
    answers = AnswersDouble(**{INPUT: [of("w1")]})
    assert (only(answers).what, only(answers).needs) == ("no rule records mem", "rules")
    answers.rules = {"mem": "many-to-many matching"}
    assert "many-to-many matching" in only(answers).remedy
    expression = Wanted({"memory": "max(mem)"}, "node", "percent", WANTED.nodes)
    assert only(answers, expression).remedy == "mend the query; its input is there"


@pytest.mark.parametrize(
    "discovered",
    ["__meta_kubernetes_pod_node_name", "__meta_kubernetes_endpoint_node_name", "__meta_kubernetes_node_name"],
)
def test_series_without_a_node_that_discovery_knows(discovered: str) -> None:
    answers = AnswersDouble(mem=[of("", instance="10.0.0.1:9100")])
    answers.scraped = [
        {"labels": {"instance": "10.0.0.9:80"}, "discoveredLabels": {"__meta_kubernetes_pod_node_name": "x"}},
        {"labels": {"instance": "10.0.0.1:9100"}, "discoveredLabels": {discovered: "w1"}},
    ]
    assert f"source_labels: [{discovered}]\n  target_label: node" in only(answers).snippet


@pytest.mark.parametrize("scraped", [[], None])
def test_or_that_nobody_knows(scraped: list[dict[str, Any]] | None) -> None:
    answers = AnswersDouble(**{INPUT: [of("", instance="10.0.0.2:9999")]})
    answers.scraped = scraped
    assert only(answers).what == "node_memory_MemAvailable_bytes has no label node"
    assert "['10.0.0.1:9100']\n  labels: {node: w1}" in only(answers).snippet
    assert "['10.0.0.2:9999']\n  labels: {node: w2}" in only(answers).snippet


def test_some_nodes_are_missing_and_why() -> None:
    answers = AnswersDouble(mem=[of("w1")])
    assert only(answers).nodes == ("w2",)
    down = {"health": "down", "scrapeUrl": "http://10.0.0.2:9100/metrics", "lastError": "refused", "labels": {}}
    answers.scraped = [{**down, "labels": {"instance": "10.0.0.2:9100"}}]
    assert only(answers).remedy == "w2: http://10.0.0.2:9100/metrics is down: refused"
    answers = AnswersDouble(mem=[of("w1"), of("w2.example.com")])
    assert "Prometheus knows w2.example.com" in only(answers).remedy


def test_two_series_for_a_node() -> None:
    assert only(AnswersDouble(mem=[of("w1"), of("w2"), of("w2", job="b")])).nodes == ("w2",)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_values_that_are_none(value: float) -> None:
    found = only(AnswersDouble(mem=[of("w1"), of("w2", value)]))
    assert (found.nodes, "values that are none" in found.what) == (("w2",), True)


@pytest.mark.parametrize(
    ("unit", "value", "what"),
    [
        ("percent", 4000.0, "values that are no percent"),
        ("ratio", 40.0, "values that are no ratio"),
        ("percent", 0.4, "is 1 at the most on every node"),
    ],
)
def test_another_unit(unit: str, value: float, what: str) -> None:
    wanted = Wanted(WANTED.queries, "node", unit, WANTED.nodes)
    assert what in only(AnswersDouble(mem=[of("w1", value), of("w2", value)]), wanted).what


def test_absolute_values_have_no_most() -> None:
    wanted = Wanted(WANTED.queries, "node", "absolute", WANTED.nodes)
    assert check(AnswersDouble(mem=[of("w1", 1e12), of("w2", 2.0)]), wanted) == []
