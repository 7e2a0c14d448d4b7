# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role monitoring by ansible-playbook: what it tells of a Prometheus, and what it would put into a real cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import ROOT
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

RULES = (ROOT / "roles/monitoring/files/colocation-rules.yml").read_text()
RECORDED = {"node_cpu_usage_avg_5m", "node_mem_usage_avg_5m"}
ALERTS = {"ColocationExtenderMeasuresNothing", "ColocationAgentGone"}  # one of the extender, one of agents
SYSTEMCTL = """\
#!/bin/sh
cd {place}
case $1 in
show) printf '%s\\n' LoadState=loaded "ActiveState=$(cat state)" UnitFileState=enabled ;;
*) echo "$1" >>told; echo active >state ;;
esac
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/monitoring.coreos.com/v1"
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "prometheusrules.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "PrometheusRule", "listKind": "PrometheusRuleList", "plural": "prometheusrules"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
OTHERS = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "PrometheusRule",
    "metadata": {"name": "others", "labels": {"app.kubernetes.io/component": "monitoring"}},
    "spec": {"groups": []},
}


def named(rules: dict[str, Any]) -> set[str]:
    """What the rules record, and their alerts."""
    return {rule.get("record") or rule["alert"] for group in rules["groups"] for rule in group["rules"]}


def standing(api: KubeClient) -> set[str]:
    """What the role could have made, whoever made it."""
    rules = [("PrometheusRule", one["metadata"]) for one in api.items(f"{GROUP}/prometheusrules")]
    spaces = [
        ("Namespace", one["metadata"]) for one in api.items("/api/v1/namespaces") if one["status"]["phase"] == "Active"
    ]
    return {f"{kind} {one.get('namespace', '')}/{one['name']}" for kind, one in rules + spaces}


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


class Programs:
    """promtool, and a systemctl that notes what it is told; its unit runs then."""

    def __init__(self, place: Path) -> None:
        self._told, self._state = place / "told", place / "state"
        self._told.touch()
        self._state.write_text("active")
        double = place / "systemctl"
        double.write_text(SYSTEMCTL.format(place=place))
        double.chmod(0o755)
        self.path = f"{place}:{program('promtool').parent}:{os.environ['PATH']}"

    def told(self) -> list[str]:
        """What the unit was told since one asked last."""
        lines = self._told.read_text().splitlines()
        self._told.write_text("")
        return lines

    def stop(self) -> None:
        self._state.write_text("inactive")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    return made


def file_of(said: str) -> str:
    """The file that a run's diff shows where none stood."""
    return "".join(f"{line[1:]}\n" for line in said.splitlines() if line.startswith("+") and line[:3] != "+++")


def test_rules_as_a_file(play: RolePlay, prometheus: PrometheusDouble, programs: Programs) -> None:
    prometheus.set({"worker1": 30.0})
    file = play.place / "rules" / "colocation.yml"
    rules = {"monitoring_rules": "file", "monitoring_rules_file": str(file)}
    status, would, said = play("--check", **rules)
    assert (status, would) == (0, 2), said  # the file, and Prometheus that reads it
    assert not file.parent.exists()
    assert programs.told() == []
    assert file_of(said) == RULES
    status, changed, said = play(**rules)
    assert (status, changed) == (0, would), said
    assert file_of(said) == RULES
    assert programs.told() == ["reload"]
    assert file.read_text() == RULES
    assert file.stat().st_mode & 0o777 == 0o644
    checked = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, check=False, text=True)
    assert checked.returncode == 0, checked.stderr
    assert named(yaml.safe_load(file.read_text())) >= RECORDED | ALERTS
    status, changed, said = play(**rules)
    assert (status, changed) == (0, 0), said
    assert programs.told() == []

    status, changed, said = play("--check", entry="uninstall", **rules)
    assert (status, changed > 0, file.exists()) == (0, True, True), said
    status, changed, said = play(entry="uninstall", **rules)
    assert (status, changed > 0) == (0, True), said
    assert not file.parent.exists()  # it was made for the file
    assert programs.told() == ["restart"]
    status, changed, said = play(entry="uninstall", **rules)
    assert (status, changed) == (0, 0), said


def test_a_rule_file_that_stood_there_comes_back(
    play: RolePlay, prometheus: PrometheusDouble, programs: Programs, tmp_path: Path
) -> None:
    prometheus.set({"worker1": 30.0})
    file = tmp_path / "colocation.yml"
    file.write_text("groups: []\n")
    file.chmod(0o640)
    beside = tmp_path / "other.yml"
    beside.write_text("groups: []\n")
    rules = {"monitoring_rules": "file", "monitoring_rules_file": str(file)}
    status, dummy, said = play(**rules)
    assert status == 0, said
    assert "-groups: []" in said
    assert named(yaml.safe_load(file.read_text())) >= RECORDED
    programs.stop()
    status, dummy, said = play(entry="uninstall", **rules)
    assert status == 0, said
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("groups: []\n", 0o640)
    assert beside.exists()
    assert programs.told() == ["reload", "restart"]
    status, changed, said = play(entry="uninstall", **rules)
    assert (status, changed) == (0, 0), said  # so it is not stopped again either


@pytest.fixture
def operator(api_server: ApiServer) -> Iterator[KubeClient]:
    """The API server knows PrometheusRules, as where Prometheus' operator runs; somebody else has one already."""

    def established() -> bool:
        conditions = api.get(path).get("status", {}).get("conditions") or []
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    with client(api_server) as api:
        api.post(DEFINITIONS, DEFINITION)
        path = f"{DEFINITIONS}/{DEFINITION['metadata']['name']}"
        try:
            wait_until("PrometheusRule", established, 30)
            if api.find("/api/v1/namespaces/operators") is None:
                api.post("/api/v1/namespaces", {"metadata": {"name": "operators"}})
            api.post(f"{GROUP}/namespaces/operators/prometheusrules", OTHERS)
            yield api
        finally:
            api.remove(path)  # and with it all of its kind
            wait_until("no PrometheusRule", lambda: api.find(path) is None, 30)


def test_rules_as_an_object(play: RolePlay, prometheus: PrometheusDouble, operator: KubeClient) -> None:
    prometheus.set({"worker1": 30.0})
    rules = {
        "monitoring_rules": "prometheusrule",
        "monitoring_namespace": "operators",
        "monitoring_rule_labels": {"release": "operator"},
    }
    path = f"{GROUP}/namespaces/operators/prometheusrules/colocation"
    status, changed, said = play("--check", **rules)
    assert (status, changed) == (0, 1), said
    assert "PrometheusRule operators/colocation" in said
    assert operator.find(path) is None
    status, changed, said = play(**rules)
    assert (status, changed) == (0, 1), said
    made = operator.get(path)
    assert made["metadata"]["labels"]["release"] == "operator"
    assert made["spec"] == yaml.safe_load(RULES)
    assert named(made["spec"]) >= RECORDED | ALERTS
    status, changed, said = play(**rules)
    assert (status, changed) == (0, 0), said

    before = standing(operator)
    status, changed, said = play(entry="uninstall")
    assert (status, changed) == (0, 1), said
    assert before - standing(operator) == {"PrometheusRule operators/colocation"}


def test_an_object_gets_a_namespace(play: RolePlay, prometheus: PrometheusDouble, operator: KubeClient) -> None:
    prometheus.set({"worker1": 30.0})
    rules = {"monitoring_rules": "prometheusrule", "monitoring_namespace": "made-for-rules"}
    before = standing(operator)
    status, changed, said = play(**rules)
    assert (status, changed) == (0, 1), said
    assert standing(operator) - before == {"Namespace /made-for-rules", "PrometheusRule made-for-rules/colocation"}
    status, changed, said = play(**rules)
    assert (status, changed) == (0, 0), said
    # Nobody here finishes what becomes of a namespace, so it is not waited for.
    status, changed, said = play(entry="uninstall", monitoring_timeout=0)
    assert (status, changed) == (0, 1), said
    assert standing(operator) == before


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
