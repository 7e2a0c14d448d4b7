# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender's configuration: an empty one is good, and a bad one is told by its line."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import config
from colocation.common.config import ConfigError


def test_an_empty_file_has_the_names_and_defaults_of_the_documentation() -> None:
    empty = config()
    assert list(empty.profiles) == [
        "mem-real-usage-scheduler",
        "cpu-real-usage-scheduler",
        "real-usage-scheduler",
        "oversell-scheduler",
    ]
    assert (empty.queryMetricTimeSeconds, empty.queryMetricIntervalSeconds) == (10, 10)
    assert empty.prometheus.queries.memory == "node_mem_usage_avg_5m"
    assert empty.chosen_source == "kubelets"
    assert config('prometheusApiAddr: "http://10.96.0.102:9090"').chosen_source == "prometheus"
    assert config("source: metrics-api").chosen_source == "metrics-api"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prometheusApiAddress: x", 'did you mean "prometheusApiAddr"?'),
        ("prometheusApiAddr: 10.96.0.102:9090", "is no address"),
        ("prometheusApiAddr: http://user:secret@p:9090", "name them in the section prometheus"),
        ("prometheusApiAddr: 'http://a:9090, http://b:99999'", "is no address"),
        ("source: prometheus", "prometheusApiAddr: is missing"),
        ("{prometheusApiAddr: http://p, in_flight: {estimate: learned}}", "needs prometheus.queries.pod_cpu and pod"),
        ("stale_seconds: 15", "at least twice queryMetricIntervalSeconds"),
        ("profiles: {}", "at least one profile"),
        ("profiles: {p: {weights: {cpu: 0}}}", "at least one weight"),
        ("profiles: {p: {weights: {gpu: 1}}}", "is no choice here"),
        ("profiles: {p: {full_at: 95}}", "between 0.01 and 1"),
        (
            "profiles: {p: {}, q: {window: {kind: mean, seconds: 86400}}}",
            "profiles: q: the window has 8640 samples of each node, more than 720; at most 7200 seconds",
        ),
        ("{queryMetricIntervalSeconds: 1, profiles: {p: {window: {kind: peak, seconds: 721}}}}", "at most 720 seconds"),
        ("in_flight: {unknown: {memory: 0}}", "must be a text"),
        ('in_flight: {unknown: {memory: "0"}}', "is no amount"),
        ("in_flight: {memory_resources: {test.com/x: much}}", "is no amount"),
        ("listen: {port: 9463}", "the status page has this address and port"),
        ("prometheus: {certificate_file: /a}", "belong together"),
        ("prometheus: {username: a}", "belong together"),
        ("prometheus: {username: a, password_file: /p, token_file: /t}", "not both"),
        ("prometheus: {ca_file: ca.pem}", "does not begin with /"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as problem:
        config(text)
    assert complaint in str(problem.value)
    assert "extender.yaml:1: " in str(problem.value)
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        "profiles: {p: {window: {kind: peak, seconds: 7200}}}",
        "{queryMetricIntervalSeconds: 120, stale_seconds: 240, profiles: {p: {window: {kind: peak, seconds: 86400}}}}",
        "profiles: {p: {window: {seconds: 86400}}}",
    ],
)
def test_windows_of_few_samples_may_be_long(text: str) -> None:
    assert "p" in config(text).profiles
