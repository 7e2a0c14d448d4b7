# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role's configuration, rules and findings with a real Prometheus and a real node exporter."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.modules import prometheus_nodes_info
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.prometheus_server import PrometheusServer, program
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import Program
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from ansible_collections.colocation.kubernetes.tests.role_rendering import ROLES, Rendered
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

RULES = ROLES / "monitoring" / "files" / "colocation-rules.yml"
DASHBOARDS = sorted(RULES.parent.glob("*dashboard.json"))
NODES = {"worker1": "127.0.0.1"}


class Monitoring:
    """One Prometheus and one exporter, as the role configures them, but faster."""

    def __init__(self, place: Path) -> None:
        self._config = place / "prometheus.yml"
        (place / "colocation-rules.yml").write_text(RULES.read_text().replace("interval: 10s", "interval: 1s"))
        self.exporter_port = free_port()
        listen = f"--web.listen-address=127.0.0.1:{self.exporter_port}"
        self.exporter = Program([program("prometheus-node-exporter"), listen], place / "exporter.log")
        self.prometheus = PrometheusServer(place, yaml.safe_dump(self.settings()))
        self.address = self.prometheus.address
        self.prometheus.until_ready()

    def stop(self) -> None:
        self.prometheus.stop()
        self.exporter.stop()

    def settings(self) -> dict[str, Any]:
        role = Rendered(
            "monitoring",
            __monitoring_nodes=NODES,
            monitoring_exporter_port=self.exporter_port,
            monitoring_scrape_interval="1s",
            monitoring_prometheus_config=str(self._config),
        )
        found: dict[str, Any] = yaml.safe_load(role["__monitoring_settings"])
        return found

    def configure(self, settings: dict[str, Any]) -> None:
        self.prometheus.reload(yaml.safe_dump(settings))

    def findings(self, **said: Any) -> list[dict[str, Any]]:
        answer = call(prometheus_nodes_info.main, **{"addresses": [self.address], "nodes": NODES, **said})
        found: list[dict[str, Any]] = answer["findings"]
        return found

    def until(self, what: str, **said: Any) -> dict[str, Any]:
        """Wait until the only kind of finding is that one; the first of them."""
        wait_until(
            what,
            lambda: bool(found := self.findings(**said)) and all(what in one["what"] for one in found),
            40,
            lambda: str(self.findings(**said)),
        )
        return self.findings(**said)[0]

    def until_good(self) -> None:
        wait_until("every node's use", lambda: self.findings() == [], 40, lambda: str(self.findings()))

    def value(self, query: str) -> float:
        with urllib.request.urlopen(f"{self.address}/api/v1/query?query={query}", timeout=10) as answer:
            return float(json.load(answer)["data"]["result"][0]["value"][1])


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    made = Monitoring(tmp_path_factory.mktemp("monitoring"))
    try:
        yield made
    finally:
        made.stop()


def test_what_the_role_writes_tells_the_real_use(monitoring: Monitoring) -> None:
    monitoring.until_good()
    said = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available, total = (float(said[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    assert monitoring.value("node_mem_usage_avg_5m") == pytest.approx(100 * (1 - available / total), abs=15)
    assert 0 <= monitoring.value("node_cpu_usage_avg_5m") <= 101


def test_a_node_that_is_not_scraped(monitoring: Monitoring) -> None:
    monitoring.until_good()
    found = monitoring.until("has no value for these nodes", nodes={**NODES, "worker2": "10.0.0.2"})
    assert found["nodes"] == ["worker2"]
    assert found["remedy"] == "see that Prometheus scrapes the node exporters there"


def test_the_label_has_other_names(monitoring: Monitoring) -> None:
    monitoring.until_good()
    found = monitoring.until("has no value for these nodes", nodes={"worker1.example.com": "10.0.0.9"})
    assert found["remedy"] == "node should be the Node's name in the API; Prometheus knows worker1"


def test_another_unit(monitoring: Monitoring) -> None:
    monitoring.until_good()
    found = monitoring.findings(memory="clamp_min(node_mem_usage_avg_5m, 1) * 1000")
    assert [one["what"] for one in found] == [
        "clamp_min(node_mem_usage_avg_5m, 1) * 1000 has values that are no percent"
    ]


def test_series_without_the_nodes_name_and_the_lines_that_mend_it(monitoring: Monitoring) -> None:
    settings = monitoring.settings()
    address = f"127.0.0.1:{monitoring.exporter_port}"
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [address]}]
    monitoring.configure(settings)
    asked = {"memory": "node_memory_MemFree_bytes{node=''}", "cpu": "up{node=''}", "unit": "absolute"}
    found = monitoring.until("has no label node", **asked)
    assert f"- targets: ['{address}']" in found["snippet"]
    mended = yaml.safe_load(found["snippet"])
    settings["scrape_configs"][0].update(mended)
    monitoring.configure(settings)
    monitoring.until_good()


def test_a_rule_that_is_missing(monitoring: Monitoring) -> None:
    monitoring.until_good()
    found = monitoring.until("no rule records", memory="no_such_rule", cpu="nor_this")
    assert found["needs"] == "rules"


def test_an_exporter_that_is_down(monitoring: Monitoring) -> None:
    settings = monitoring.settings()
    down = f"127.0.0.1:{free_port()}"
    settings["scrape_configs"][0]["static_configs"].append({"targets": [down], "labels": {"node": "worker2"}})
    monitoring.configure(settings)
    nodes = {**NODES, "worker2": "127.0.0.1"}

    def only_that_is_told() -> bool:
        found = monitoring.findings(nodes=nodes)
        return "connection refused" in str(found) and all(one["nodes"] == ["worker2"] for one in found)

    wait_until("the scrape to fail", only_that_is_told, 40, lambda: str(monitoring.findings(nodes=nodes)))
    assert f"worker2: http://{down}/metrics is down" in monitoring.findings(nodes=nodes)[0]["remedy"]


def test_nobody_answers(monitoring: Monitoring) -> None:
    found = monitoring.findings(
        addresses=[f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{monitoring.exporter_port}"]
    )
    assert "can't be asked: [Errno 111] Connection refused" in found[0]["what"]
    assert "does not answer as Prometheus does; is it the right address?" in found[1]["what"]
    assert [one["nodes"] for one in found] == [["worker1"], ["worker1"]]


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_promtool_likes_the_rules_and_every_query_of_the_dashboards(file: Path, tmp_path: Path) -> None:
    dashboard = json.loads(file.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [{"record": f"query{number}", "expr": query} for number, query in enumerate(queries)]
    asked = tmp_path / "dashboard.yml"
    asked.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", RULES, asked], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(queries)} rules found" in done.stdout


def test_agents_on_nodes_are_scraped_at_their_ports(tmp_path: Path) -> None:
    settings = Rendered(
        "monitoring", __monitoring_nodes={"worker1": "10.0.0.1", "worker2": ""}, monitoring_agent_ports=[9461, 9463]
    )["__monitoring_settings"]
    jobs = {one["job_name"]: one for one in yaml.safe_load(settings)["scrape_configs"]}
    for port in (9461, 9463):
        assert jobs[f"colocation-agents-{port}"]["static_configs"] == [
            {"targets": [f"10.0.0.1:{port}"], "labels": {"node": "worker1"}},
            {"targets": [f"worker2:{port}"], "labels": {"node": "worker2"}},
        ]
    file = tmp_path / "prometheus.yml"
    file.write_text(settings)
    check = [program("promtool"), "check", "config", "--syntax-only", file]
    done = subprocess.run(check, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    images = {"monitoring_prometheus_image": "p", "monitoring_exporter_image": "e"}
    within = Rendered("monitoring", __monitoring_nodes=NODES, monitoring_agent_ports=[9461], **images)
    found = yaml.safe_load(within["__monitoring_settings"])["scrape_configs"]
    job = next(one for one in found if one["job_name"] == "colocation-agents-9461")
    assert job["kubernetes_sd_configs"] == [{"role": "node"}]  # which Debian's promtool is built without
    assert job["relabel_configs"][1]["replacement"] == "$1:9461"


def test_alerts_come_when_they_should(tmp_path: Path) -> None:
    """By promtool's own tests of rules."""
    instance = 'instance="x"'
    metric = "colocation_scheduler_"
    cases = {
        "ColocationExtenderMeasuresNothing": {f"{metric}round_age_seconds{{{instance}}}": "0+60x60"},
        "ColocationNodesJudgedByRequests": {
            f'{metric}judged_nodes{{profile="p",resource="memory",by="requests"}}': "2+0x60",
            f'{metric}judged_nodes{{profile="p",resource="memory",by="last"}}': "1+0x60",
            f'{metric}judged_nodes{{profile="p",resource="memory",by="use"}}': "7+0x60",
            f"{metric}nodes": "10+0x60",
        },
        "ColocationExtenderBlind": {f'{metric}watch_up{{{instance},kind="pods"}}': "0+0x60"},
        "ColocationExtenderSlow": {
            f'{metric}request_seconds_bucket{{{instance},verb="prioritize",le="0.1"}}': "0+0x60",
            f'{metric}request_seconds_bucket{{{instance},verb="prioritize",le="0.25"}}': "0+60x60",
            f'{metric}request_seconds_bucket{{{instance},verb="prioritize",le="+Inf"}}': "0+60x60",
        },
        "ColocationExtenderRefusesRequests": {
            f'{metric}requests_total{{{instance},verb="prioritize",code="400"}}': "0+9x60"
        },
        "ColocationExtenderTooLate": {f'{metric}requests_total{{{instance},verb="none",code="499"}}': "0+9x60"},
        "ColocationPlacedWithoutExtender": {
            f'{metric}bound_total{{{instance},asked="no"}}': "0+9x60",
            f'{metric}bound_total{{{instance},asked="yes"}}': "0+1x60",
            f'{metric}bound_total{{instance="idle",asked="no"}}': "0+10x60",
        },
        "ColocationFavouritesPassedOver": {
            f'{metric}bookings_ended_total{{how="elsewhere"}}': "0+9x60",
            f'{metric}bookings_ended_total{{how="kept"}}': "0+1x60",
        },
        "ColocationAgentGone": {f'up{{{instance},job="colocation-agents"}}': "1+0x30 0+0x30"},
        "ColocationAgentIll": {f"colocation_problems{{{instance}}}": "1+0x60"},
        "ColocationRoundsFail": {f"colocation_tick_failures_total{{{instance}}}": "0+1x60"},
        "ColocationConfigurationRefused": {
            f'colocation_config_reloads_total{{{instance},result="rejected"}}': "0+0x45 1+0x15"
        },
        "ColocationNotRegistered": {f'colocation_registered{{{instance},resource="a/b"}}': "0+0x60"},
        "ColocationMoreHeldThanThereIs": {
            f'colocation_memory_held_blocks{{{instance},zone="0"}}': "9+0x60",
            f'colocation_memory_held_blocks{{{instance},zone="1"}}': "0+0x60",
            f'colocation_memory_fitting_blocks{{{instance},zone="0"}}': "5+0x60",
            f'colocation_memory_fitting_blocks{{{instance},zone="1"}}': "3+0x60",
        },
        "ColocationReclaimFails": {
            f'colocation_reclaim_actions_total{{{instance},rung="evict",result="refused"}}': "0+1x60"
        },
        "ColocationPodsKilled": {
            f'colocation_reclaim_actions_total{{{instance},rung="kill",result="done"}}': "0+0x45 1+0x15"
        },
        "ColocationTasksStall": {f"colocation_memory_stalled_seconds{{{instance}}}": "0+9x60"},
        "ColocationProxyFailsOpen": {f'colocation_cri_fail_open_total{{{instance},part="policy"}}': "0+0x45 1+0x15"},
        "ColocationProxyPlacesNothing": {f"colocation_cri_policy_active{{{instance}}}": "0+0x60"},
        "ColocationProxyBypassed": {
            f'colocation_cri_connections{{{instance},kind="placed"}}': "0+0x60",
            f'colocation_cri_connections{{{instance},kind="plain"}}': "0+0x60",
        },
        "ColocationRuntimeUnreachable": {f"colocation_cri_runtime_unreachable_total{{{instance}}}": "0+1x60"},
        "ColocationCpusetsWrong": {f"colocation_cri_wrong_cpusets{{{instance}}}": "1+0x60"},
    }
    written = {
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert written == set(cases)
    zero_is_ill = ("ExtenderBlind", "AgentGone", "NotRegistered", "ProxyPlacesNothing", "ProxyBypassed")
    ill_at_zero = [f"Colocation{what}" for what in zero_is_ill]
    for alert, series in cases.items():
        well = int(alert in ill_at_zero)
        assert fires(tmp_path, alert, series), alert
        assert not fires(tmp_path, alert, dict.fromkeys(series, f"{well}+0x60")), alert
    one_is_asked = {
        f'{metric}bound_total{{{instance},asked="no"}}': "0+1x60",
        f'{metric}bound_total{{{instance},asked="yes"}}': "0+9x60",
        f'{metric}bound_total{{instance="idle",asked="no"}}': "0+10x60",
    }
    assert not fires(tmp_path, "ColocationPlacedWithoutExtender", one_is_asked)
    never_was_one = {f'up{{{instance},job="colocation-agents"}}': "0+0x60"}
    a_pod_that_was_replaced = {f'up{{{instance},job="colocation-scheduler"}}': "1+0x30 0+0x30"}
    for series in (never_was_one, a_pod_that_was_replaced):
        assert not fires(tmp_path, "ColocationAgentGone", series)
    nobody_ever_came = {f"colocation_cri_policy_active{{{instance}}}": "1+0x60"}
    assert fires(tmp_path, "ColocationProxyBypassed", nobody_ever_came)


def fires(place: Path, alert: str, series: dict[str, str]) -> bool:
    """Whether an alert fires after 50 minutes of such series; promtool says so by what it does not expect."""
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [{"eval_time": "50m", "alertname": alert, "exp_alerts": []}],
            }
        ],
    }
    file = place / "test.yml"
    file.write_text(yaml.safe_dump(test))
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, check=False, text=True)
    assert done.returncode == 0 or f"alertname: {alert}" in done.stderr, done.stderr
    return done.returncode != 0
