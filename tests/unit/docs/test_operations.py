# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The operations guide tells of every metric, event and alert that there is, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.agent_metrics import event_reasons, metrics, series

COLLECTION = Path(__file__).parents[3]
RULES = COLLECTION / "roles" / "monitoring" / "files" / "colocation-rules.yml"
METRIC = re.compile(r"(?:colocation|process)_[a-z0-9_]+")


@pytest.fixture(scope="module")
def guide() -> str:
    return (COLLECTION / "docs" / "operations.md").read_text()


def rows(guide: str, heading: str) -> list[list[str]]:
    """The cells of all tables in the sections whose heading begins so, without their heads."""
    sections = [part for part in re.split(r"^## ", guide, flags=re.M) if part.startswith(heading)]
    lines = [line for section in sections for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(found: list[list[str]]) -> list[str]:
    return [row[0].strip("`") for row in found]


def test_every_metric_is_explained_once() -> None:
    text = (COLLECTION / "docs" / "operations.md").read_text()
    explained = named(rows(text, "Metrics of"))
    assert len(explained) == len(set(explained))
    assert len(metrics()) > 60, "the agents' code is read no more"
    assert set(explained) == set(metrics())


def test_every_event_is_explained_with_what_to_do(guide: str) -> None:
    found = rows(guide, "Events")
    assert len(event_reasons()) >= 5
    assert set(named(found)) == event_reasons()
    assert all(len(row) == 3 and all(row) for row in found)


def test_every_alert_is_explained_with_what_to_do(guide: str) -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
    found = rows(guide, "Alerts")
    assert sorted(named(found)) == sorted(alerts)
    assert all(len(row) == 3 and all(row) for row in found)


def test_nothing_is_named_that_there_is_not(guide: str) -> None:
    assert set(METRIC.findall(" ".join(re.findall(r"`([^`]+)`", guide)))) <= set(metrics()) | series()
