# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The day of the scenario cri_proxy: a watch that ends on the way, as the API server's do in a long one."""

from __future__ import annotations

import subprocess
from types import ModuleType

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.cluster.scenario_script import loaded


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return loaded("cri_proxy/day.py", monkeypatch)


class ClusterDouble:
    """Its pods are up at once. Each watch tells what there is, what comes until it ends, and nothing in between."""

    def __init__(self) -> None:
        self.watches = 0
        self.there: list[str] = []

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        if words[0] == "delete":
            self.there = []
        return ""

    def names(self) -> set[str]:
        return set(self.there)

    def watch(self) -> subprocess.Popen[str]:
        self.watches += 1
        if self.watches == 1:
            self.there = ["day-0"]
        lines = "\n".join(f"ADDED|{name}|Running|True|2" for name in self.there)
        return subprocess.Popen(["echo", lines], stdout=subprocess.PIPE, text=True)


def test_pods_that_went_while_nobody_watched_have_gone(day: ModuleType) -> None:
    cluster = ClusterDouble()
    found = day.Life(cluster, [day.Pod("day-0", {}, 0.0)], 1).live([], 0)
    assert (found.cycles, found.failed, found.restarts, len(found.seconds)) == (1, {}, 2, 1)
    assert cluster.watches > 1
