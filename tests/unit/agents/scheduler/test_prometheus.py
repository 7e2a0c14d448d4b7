# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Prometheus as a source: units, labels, ages, who is asked and how, and all the ways in which it can fail."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Authority
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB, cluster, node
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.fake_prometheus import (
    FakePrometheus,
    Metric,
    fake_prometheus,
)
from colocation.common.config import load
from colocation.scheduler.cluster import Reading
from colocation.scheduler.config import Prometheus
from colocation.scheduler.fetch import FetchError
from colocation.scheduler.pods import Amount
from colocation.scheduler.prometheus import PrometheusSource, read_answer
from colocation.scheduler.sources import Sampling, SourceError

NODES = {name: node(name) for name in "abc"}


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as made:
        made.memory(a=50, b=20, c=30)
        made.cpu(a=10, b=20, c=30)
        yield made


def source(*addresses: str, settings: str = "", timeout: float = 20.0, pods: bool = False) -> PrometheusSource:
    return PrometheusSource(addresses, load(Prometheus, settings, "prometheus"), timeout, pods)


def memory(sampling: Sampling) -> Mapping[str, float]:
    return {name: reading.share for name, (_cpu, reading) in sampling.nodes.items() if reading is not None}


def test_the_rules_of_the_system_that_this_replaces_are_the_default(fake: FakePrometheus) -> None:
    sampling = source(fake.address).sample(NODES)
    assert memory(sampling) == {"a": 0.5, "b": 0.2, "c": 0.3}
    assert sampling.nodes["b"][0] is not None
    assert sampling.nodes["b"][0].share == pytest.approx(0.2)
    assert sampling.problems == ()


@pytest.mark.parametrize(("unit", "value"), [("percent", 25), ("ratio", 0.25), ("absolute", 25 * GIB)])
def test_units(fake: FakePrometheus, unit: str, value: float) -> None:
    fake.metrics["use"] = Metric({"a": value}, label="kubernetes_node")
    settings = f"queries: {{memory: use, unit: {unit}, node_label: kubernetes_node}}"
    assert memory(source(fake.address, settings=settings).sample(NODES)) == {"a": 0.25}


def test_the_age_of_a_sample_is_by_one_clock(fake: FakePrometheus) -> None:
    fake.clock = -9999.0
    fake.metrics["node_mem_usage_avg_5m"].age = 240.0
    reading = source(fake.address).sample(NODES).nodes["a"][1]
    assert reading is not None
    assert reading.age == pytest.approx(240.0, abs=2.0)
    assert reading.stamp == pytest.approx(time.time() - 9999 - 240, abs=5.0)


def test_a_sample_that_lands_between_the_two_questions_is_not_lost(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second lands in the second round, after the first question for memory."""
    first, second = Metric({"a": 20}, at=1000.0), Metric({"a": 90}, at=1010.0)
    fake.metrics["node_mem_usage_avg_5m"] = first
    answer = fake.answer

    def lands(query: str) -> Any:
        said = answer(query)
        if "mem" in query and len(fake.asked) > 4:
            fake.metrics["node_mem_usage_avg_5m"] = second
        return said

    monkeypatch.setattr(fake, "answer", lands)
    fake.clock = 1015 - time.time()
    made, model = source(fake.address), cluster("a")
    for now in (100.0, 110.0, 120.0):
        model.measured("a", made.sample(NODES).nodes["a"], now)
    assert list(model.nodes["a"].series[1].values) == [0.2, 0.9]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", -5, 900])
def test_values_that_are_none_are_no_numbers(fake: FakePrometheus, value: float | str) -> None:
    fake.memory(a=value, b=20, c=30)
    share = memory(source(fake.address).sample(NODES))["a"]
    assert math.isnan(share)


@given(st.lists(st.floats(0, 150) | st.just(float("nan")), min_size=2, max_size=4))
def test_of_two_series_of_a_node_the_busier_counts_and_no_number_before_all(values: list[float]) -> None:
    made = source("http://127.0.0.1:1")
    shares, _times = made._shares(1, [({"node": "a"}, 1.0, value) for value in values], NODES)
    if any(math.isnan(value) for value in values):
        assert math.isnan(shares["a"])
    else:
        assert shares["a"] == pytest.approx(max(values) / 100)


def test_nodes_without_a_value_are_told(fake: FakePrometheus) -> None:
    fake.memory(a=50)
    sampling = source(fake.address).sample(NODES)
    assert sampling.nodes["b"][1] is None
    assert sampling.problems == ("'node_mem_usage_avg_5m' gives nothing for 2 of 3 nodes",)


def test_a_missing_rule_is_told(fake: FakePrometheus) -> None:
    del fake.metrics["node_mem_usage_avg_5m"]
    (problem,) = source(fake.address).sample(NODES).problems
    assert "is the recording rule there?" in problem


def test_a_missing_label_is_told(fake: FakePrometheus) -> None:
    fake.metrics["node_mem_usage_avg_5m"].label = "instance"
    problems = source(fake.address).sample(NODES).problems
    assert "3 of 3 series have no label 'node'" in problems[0]


@pytest.mark.parametrize(
    ("unit", "memory", "cpu", "hint", "useless"),
    [
        ("percent", 0.97, 50, "a ratio", {0, 1}),
        ("percent", 0.97, 0.97, "a ratio", {0, 1}),
        ("ratio", 40, 0.4, "a percentage?", {0, 1}),
        ("ratio", 0.4, 40, "a percentage?", {0}),
        ("absolute", 0.4, 4, "a ratio", {1}),
        ("absolute", 40 * GIB, 40, "a percentage?", {0}),
    ],
)
def test_values_in_a_wrong_unit_are_not_taken_and_told(
    fake: FakePrometheus, unit: str, memory: float, cpu: float, hint: str, useless: set[int]
) -> None:
    """The unit of percentages and ratios is that of both queries, and memory shows it better."""
    fake.memory(a=memory, b=memory, c=memory)
    fake.cpu(a=cpu, b=cpu, c=cpu)
    sampling = source(fake.address, settings=f"queries: {{unit: {unit}}}").sample(NODES)
    assert sampling.useless.keys() == useless
    assert all(hint in why and f"taken as {unit}" in why for why in sampling.useless.values())
    taken = {resource for readings in sampling.nodes.values() for resource in (0, 1) if readings[resource] is not None}
    assert taken == {0, 1} - useless


def test_an_idle_cluster_is_no_wrong_unit(fake: FakePrometheus) -> None:
    fake.memory(a=1.2, b=0.8, c=1)
    fake.cpu(a=0.01, b=0, c=0)
    sampling = source(fake.address).sample(NODES)
    assert (sampling.useless, sampling.problems) == ({}, ())
    assert sampling.nodes["b"] == (Reading(0.0, ANY, ANY), Reading(0.008, ANY, ANY))


def test_use_of_pods(fake: FakePrometheus) -> None:
    fake.metrics["pod_cpu"] = Metric(pods={("d", "p"): 0.5, ("d", "q"): 1})
    fake.metrics["pod_memory"] = Metric(pods={("d", "p"): 7})
    made = source(fake.address, settings="queries: {pod_cpu: pod_cpu, pod_memory: pod_memory}", pods=True)
    uses = made.sample(NODES).pods
    assert uses["d/p"] == Amount(0.5, 7)
    assert uses["d/q"].memory != uses["d/q"].memory, "what is not said is no number"


def test_the_next_address_is_asked_where_one_does_not_answer_and_stays(fake: FakePrometheus) -> None:
    made = source("http://127.0.0.1:1", fake.address)
    assert len(memory(made.sample(NODES))) == 3
    assert made.name == f"Prometheus at {fake.address}"
    fake.status = 503
    with pytest.raises(SourceError, match=r"answers 503.*127.0.0.1:1 can't be asked"):
        made.sample(NODES)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not Prometheus's"),
        (b"<html>", "not Prometheus's"),
        (b"[" * 50_000, "not Prometheus's"),
        (b'{"data": {"resultType": "matrix", "result": []}}', "gives a matrix"),
        (b'{"data": {"resultType": "vector", "result": [{"metric": {}, "value": []}]}}', "not Prometheus's"),
        (b'{"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}}', "not Prometheus's"),
    ],
)
def test_an_answer_that_is_none_is_an_error_in_words(fake: FakePrometheus, body: bytes, why: str) -> None:
    fake.whole = body
    with pytest.raises(SourceError, match=why):
        source(fake.address).sample(NODES)


@pytest.mark.parametrize("how", ["wait", "drip"])
def test_one_that_is_slow_is_given_up_in_time(fake: FakePrometheus, how: str) -> None:
    setattr(fake, how, 0.1 if how == "drip" else 30.0)
    began = time.monotonic()
    with pytest.raises(SourceError, match=r"within 0.5 s"):
        source(fake.address, timeout=0.5).sample(NODES)
    assert time.monotonic() - began < 15


def test_secrets_come_from_files_that_may_change(fake: FakePrometheus, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("one\n")
    token = source(fake.address, settings=f"token_file: {file}")
    basic = source(fake.address, settings=f"{{username: me, password_file: {file}}}")
    fake.password = "Bearer one"
    token.sample(NODES)
    with pytest.raises(SourceError, match="answers 401"):
        basic.sample(NODES)
    file.write_text("two")
    fake.password = "Basic " + base64.b64encode(b"me:two").decode()
    basic.sample(NODES)
    file.unlink()
    with pytest.raises(SourceError, match="No such file"):
        basic.sample(NODES)


@pytest.mark.parametrize(
    ("settings", "good"),
    [
        ("ca_file: {ca}", True),
        ("{{ca_file: {ca}, server_name: kubernetes}}", True),
        ("{{ca_file: {ca}, server_name: other}}", False),
        ("", False),
        ("insecure_skip_verify: true", True),
    ],
)
def test_who_answers_is_checked(authority: Authority, settings: str, good: bool) -> None:
    with fake_prometheus(authority.issue("prometheus")) as fake:
        fake.memory(a=50)
        made = source(fake.address, settings=settings.format(ca=authority.certificate))
        if good:
            assert memory(made.sample(NODES)) == {"a": 0.5}
            return
        with pytest.raises(SourceError, match="not to be believed"):
            made.sample(NODES)
        assert fake.asked == []


def test_read_answer_never_breaks_otherwise() -> None:
    with pytest.raises(FetchError):
        read_answer(b'{"data": 1}', "q")
