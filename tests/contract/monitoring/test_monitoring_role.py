# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role monitoring by ansible-playbook: what it tells of a Prometheus, and what it would put into a real cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.prometheus_server import program
from ansible_collections.colocation.kubernetes.tests.contract.role_play import RolePlay
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import admin_file, client
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.node_double import make_node
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.prometheus_double import (
    PrometheusDouble,
    prometheus_double,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="its hosts are this machine as root")


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusDouble]:
    with prometheus_double() as double:
        yield double


@pytest.fixture(scope="module")
def play(
    api_server: ApiServer, prometheus: PrometheusDouble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RolePlay]:
    with client(api_server) as api:
        for left in api.items("/api/v1/nodes"):  # by other tests, for all share an API server
            api.remove(f"/api/v1/nodes/{left['metadata']['name']}")
        make_node(api, "worker1")
        yield RolePlay(
            tmp_path_factory.mktemp("monitoring"),
            "monitoring",
            {
                "monitoring_controller_kubeconfig": str(admin_file(api_server)),
                "monitoring_prometheus": [prometheus.address],
                "monitoring_state_dir": str(tmp_path_factory.mktemp("state")),
                "monitoring_host": "localhost",
            },
        )
        api.remove("/api/v1/nodes/worker1")


def test_it_tells_what_is_missing_and_then_nothing(play: RolePlay, prometheus: PrometheusDouble) -> None:
    prometheus.set({"another": 30.0})
    status, dummy, said = play()
    assert status != 0
    assert "node_mem_usage_avg_5m has no value for these nodes (worker1)" in said
    assert "Prometheus does not tell the real use of every node" in said
    status, changed, said = play(monitoring_required="false")  # as the command line says it
    assert (status, changed) == (0, 0), said
    prometheus.set({"worker1": 30.0})
    status, changed, said = play()
    assert (status, changed) == (0, 0), said
    assert "To do:" not in said


def test_rules_as_a_file(play: RolePlay, prometheus: PrometheusDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus.set({"worker1": 30.0})
    monkeypatch.setenv("PATH", f"{program('promtool').parent}:{os.environ['PATH']}")
    file = play.place / "rules" / "colocation.yml"
    dummy, changed, said = play("--check", monitoring_rules="file", monitoring_rules_file=str(file))
    # promtool has judged them; the reload at the end wants a unit, which this machine has not.
    assert changed >= 1, said
    assert "+      - record: node_mem_usage_avg_5m" in said
    assert "Let Prometheus read them" in said
    assert not file.exists()


def test_what_the_api_server_says_to_its_objects(play: RolePlay) -> None:
    images = {"monitoring_prometheus_image": "prometheus:1", "monitoring_exporter_image": "exporter:1"}
    status, changed, said = play("--check", monitoring_mode="install", monitoring_timeout=0, **images)
    assert (status, changed) == (0, 1), said
    assert all(kind in said for kind in ("DaemonSet", "ClusterRoleBinding", "colocation-rules.yml"))
    status, dummy, said = play("--check", monitoring_rules="prometheusrule")
    assert status != 0
    assert "this cluster has no PrometheusRule of monitoring.coreos.com/v1" in said


def test_what_does_not_fit_is_told(play: RolePlay) -> None:
    status, dummy, said = play(monitoring_prometheus=[])
    assert status != 0
    assert "monitoring_prometheus must name its addresses" in said
    status, dummy, said = play(monitoring_mode="install", monitoring_exporter_image="only-one:1")
    assert "belong together; one is missing" in said
