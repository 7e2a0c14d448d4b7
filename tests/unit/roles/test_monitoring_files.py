# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The rules and the dashboard name only metrics that there are, and the dashboard is one that Grafana takes."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.role_rendering import ROLES, Rendered
from colocation.common.metrics import Registry
from colocation.scheduler.config import Queries
from colocation.scheduler.counters import PREFIX, Counters

FILES = ROLES / "monitoring" / "files"
GRID = 24  # columns of a dashboard


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / "colocation-dashboard.json").read_text())
    return found


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "colocation-rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def existing() -> set[str]:
    """What the extender exposes, by the names that a query uses."""
    registry = Registry()
    Counters(registry)
    names = set(re.findall(r"^# TYPE (\S+) ", registry.render(), re.M))
    return names | {name + suffix for name in names for suffix in ("_bucket", "_sum", "_count")}


def named(text: str) -> set[str]:
    return set(re.findall(rf"\b{PREFIX}\w+", text))


def test_alerts_and_panels_name_metrics_that_there_are(dashboard: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = named(" ".join([*queries, *(rule["expr"] for rule in rules)]))
    assert len(asked) > 10
    assert asked <= existing(), asked - existing()


def test_the_rules_record_what_the_extender_asks_for(rules: list[dict[str, Any]], dashboard: dict[str, Any]) -> None:
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert recorded == {Queries().cpu, Queries().memory}
    role = Rendered("monitoring")
    assert recorded == {role["monitoring_query_cpu"], role["monitoring_query_memory"]}
    assert role["monitoring_node_label"] == Queries().node_label
    assert role["monitoring_unit"] == Queries().unit
    assert all(name in json.dumps(dashboard) for name in recorded)


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
