# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How scenarios share the machine."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import scenarios
from ansible_collections.colocation.kubernetes.tests.run.report import Report

GIB = 1 << 30


@dataclasses.dataclass
class SessionDouble:
    """Remembers what was begun, and lets two run only at once or not at all."""

    stage: Any
    begun: list[str]
    meeting: threading.Barrier
    report: Report = dataclasses.field(default_factory=Report)
    core: str = "2.19"
    failing: tuple[str, ...] = ()

    @property
    def tools(self) -> Any:
        return SimpleNamespace(core=self.core, command=lambda name: name)

    def with_newest_core(self) -> SessionDouble:
        return dataclasses.replace(self, core="2.21")

    def named(self, what: str) -> str:
        return f"{what} {self.core}"

    def run(self, command: list[str], log: str, **more: str) -> tuple[int, Path]:
        self.begun.append(log)
        if log in ("molecule-agents-2.19", "molecule-other-2.19"):
            self.meeting.wait(20)
        return int(command[-1] in self.failing), Path(__file__)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionDouble:
    for name in ("healthy", "other", "agents"):
        (tmp_path / "molecule" / name).mkdir(parents=True)
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    monkeypatch.setattr(scenarios, "at_a_time", lambda: 2)
    monkeypatch.setattr(scenarios, "WITH_NEWEST_CORE", ("healthy",))
    return SessionDouble(SimpleNamespace(collection=tmp_path), [], threading.Barrier(2))


def test_two_run_at_once_the_longest_first(session: SessionDouble) -> None:
    scenarios.run(session)  # type: ignore[arg-type]
    assert session.begun[0] == "molecule-agents-2.19"
    assert sorted(session.begun) == [
        "molecule-agents-2.19",
        "molecule-healthy-2.21",
        "molecule-other-2.19",
    ]
    assert session.report.count.passed == 3


def test_one_that_fails_is_counted_and_the_others_run(session: SessionDouble) -> None:
    session.failing = ("healthy",)
    scenarios.run(session)  # type: ignore[arg-type]
    assert (session.report.count.passed, session.report.count.failed) == (2, 1)


@pytest.mark.parametrize(
    ("cores", "memory", "lanes"),
    [(2, 24 * GIB, 1), (4, 24 * GIB, 2), (8, 8 * GIB, 1), (1, 64 * GIB, 1), (64, 512 * GIB, 4), (2, GIB, 1)],
)
def test_lanes_by_cores_and_memory(cores: int, memory: int, lanes: int) -> None:
    assert scenarios.at_a_time(cores, memory) == lanes
