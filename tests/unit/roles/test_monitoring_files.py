# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The rules and the dashboards name only metrics that there are, and the dashboards are ones that Grafana takes."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.agent_metrics import AGENTS, series
from ansible_collections.colocation.kubernetes.tests.role_rendering import ROLES, Rendered
from colocation.common.metrics import Registry
from colocation.cri_proxy.__main__ import AGENT as CRI_PROXY
from colocation.cri_proxy.trouble import Trouble
from colocation.device_plugin.__main__ import AGENT as DEVICE_PLUGIN
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.scheduler.config import Queries

FILES = ROLES / "monitoring" / "files"
DASHBOARDS = sorted(FILES.glob("*dashboard.json"))
GRID = 24  # columns of a dashboard
NOTED = re.compile(r'(?:trouble\.note|_trouble)\("(\w+)"|part = "(\w+)"')  # the part that had an error


@pytest.fixture(scope="module", params=DASHBOARDS, ids=lambda file: file.stem)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "colocation-rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def named(text: str) -> set[str]:
    return set(re.findall(r"\b(?:colocation|process)_\w+", text))


def test_panels_name_metrics_that_there_are(dashboard: dict[str, Any]) -> None:
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = named(" ".join([*queries, *(str(one.get("query", "")) for one in dashboard["templating"]["list"])]))
    assert len(asked) > 8
    assert asked <= series(), asked - series()
    agents = {agent.module.rpartition(".")[2] for agent in (CRI_PROXY, DEVICE_PLUGIN)}
    assert set(re.findall(r'agent="(\w+)"', " ".join(queries))) <= agents


def test_alerts_name_metrics_that_there_are(rules: list[dict[str, Any]]) -> None:
    asked = named(" ".join(rule["expr"] for rule in rules))
    assert len(asked) > 10
    assert asked <= series(), asked - series()


def test_what_an_alert_waits_for_is_counted_from_0() -> None:
    """A count whose first value is 1 has not increased, so the first pod that is killed would go unseen."""
    registry = Registry()
    ReclaimMetrics(registry)
    Trouble(registry)
    lines = registry.render().splitlines()
    assert 'colocation_reclaim_actions_total{rung="kill",result="done"} 0' in lines
    assert 'colocation_reclaim_actions_total{rung="evict",result="refused"} 0' in lines
    text = "".join(file.read_text() for file in AGENTS.glob("cri_proxy/*.py"))
    noted = {part for found in NOTED.findall(text) for part in found if part}
    assert len(noted) > 3
    assert {f'colocation_cri_fail_open_total{{part="{part}"}} 0' for part in noted} <= set(lines)


def test_dashboards_are_told_apart() -> None:
    found = [json.loads(file.read_text()) for file in DASHBOARDS]
    assert len({one["uid"] for one in found}) == len({one["title"] for one in found}) == len(DASHBOARDS) == 3


def test_the_rules_record_what_the_extender_asks_for(rules: list[dict[str, Any]]) -> None:
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert recorded == {Queries().cpu, Queries().memory}
    role = Rendered("monitoring")
    assert recorded == {role["monitoring_query_cpu"], role["monitoring_query_memory"]}
    assert role["monitoring_node_label"] == Queries().node_label
    assert role["monitoring_unit"] == Queries().unit
    dashboard = (FILES / "colocation-dashboard.json").read_text()
    assert all(name in dashboard for name in recorded)


def test_every_alert_says_what_is_wrong_and_what_to_do(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        if "alert" in rule:
            assert rule["alert"].startswith("Colocation")
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert {"summary", "description"} == set(rule["annotations"])
            assert rule["for"]


def test_grafana_can_load_the_dashboard(dashboard: dict[str, Any]) -> None:
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= set(dashboard)
    assert len(dashboard["uid"]) <= 40
    assert "id" not in dashboard, "an id is the instance's own"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in panels:
        assert panel["title"] and panel["type"] == "timeseries"
        assert panel["datasource"]["uid"].strip("${}") in variables, "it asks which Prometheus"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID and min(place.values()) >= 0
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, "panels lie on each other"
