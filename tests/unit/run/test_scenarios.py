# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How scenarios share the machine."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies

from ansible_collections.colocation.kubernetes.tests.run import scenarios
from ansible_collections.colocation.kubernetes.tests.run.report import Report

GIB = 1 << 30
COLLECTION = Path(__file__).parents[3]


@dataclasses.dataclass
class SessionDouble:
    """Remembers what was begun, and lets two run only at once or not at all."""

    stage: Any
    begun: list[str]
    meeting: threading.Barrier
    logs: Path
    report: Report = dataclasses.field(default_factory=Report)
    core: str = "2.19"
    failing: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def tools(self) -> Any:
        return SimpleNamespace(core=self.core, command=lambda name: name)

    def with_newest_core(self) -> SessionDouble:
        return dataclasses.replace(self, core="2.21")

    def named(self, what: str) -> str:
        return f"{what} {self.core}"

    def run(self, command: list[str], log: str, **more: str) -> tuple[int, Path]:
        self.begun.append(log)
        if log in self.idle:
            Path(more["COLOCATION_WAITS"]).touch()
        if log in ("molecule-agents-2.19", "molecule-healthy-2.21"):
            self.meeting.wait(20)
        return int(command[-1] in self.failing), Path(__file__)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionDouble:
    for name, vms in (("healthy", 1), ("other", 1), ("agents", 2)):
        place = tmp_path / "molecule" / name
        place.mkdir(parents=True)
        (place / "molecule.yml").touch()
        (place / "cluster.yml").write_text(json.dumps({"cluster_options": ["--node", "plain"] * vms}))
    monkeypatch.setattr(scenarios, "vms_at_a_time", lambda: 3)
    monkeypatch.setattr(scenarios, "WITH_NEWEST_CORE", ("healthy",))
    return SessionDouble(SimpleNamespace(collection=tmp_path, root=tmp_path), [], threading.Barrier(2), tmp_path)


def test_two_run_at_once_the_longest_first(session: SessionDouble) -> None:
    scenarios.run(session)  # type: ignore[arg-type]
    assert session.begun[0] == "molecule-agents-2.19"
    assert sorted(session.begun) == [
        "molecule-agents-2.19",
        "molecule-healthy-2.21",
        "molecule-other-2.19",
    ]
    assert session.report.count.passed == 3


def test_long_ones_run_when_they_are_asked_for(session: SessionDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "LONG", ("other",))
    session.meeting = threading.Barrier(1)
    for run, names in (
        (scenarios.run, ["molecule-agents-2.19", "molecule-healthy-2.21"]),
        (scenarios.run_long, ["molecule-other-2.19"]),
        (functools.partial(scenarios.run_chosen, names=["healthy"]), ["molecule-healthy-2.21"]),
    ):
        session.begun.clear()
        run(session)  # type: ignore[arg-type]
        assert sorted(session.begun) == names


def test_every_long_one_is_there() -> None:
    assert set(scenarios.known(COLLECTION)) > set(scenarios.LONG)


def test_one_that_fails_is_counted_and_the_others_run(session: SessionDouble) -> None:
    session.failing = ("healthy",)
    scenarios.run(session)  # type: ignore[arg-type]
    assert (session.report.count.passed, session.report.count.failed) == (2, 1)


def test_one_that_no_other_fits_beside_runs_alone(session: SessionDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three VMs are wanted by two scenarios that meet; with room for one VM they must not meet, and still run."""
    monkeypatch.setattr(scenarios, "vms_at_a_time", lambda: 1)
    session.meeting = threading.Barrier(1)
    scenarios.run(session)  # type: ignore[arg-type]
    assert session.begun[0] == "molecule-agents-2.19"
    assert session.report.count.passed == 3


def test_another_is_begun_beside_one_that_only_waits(session: SessionDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for the two VMs of one scenario, the other would never meet it."""
    monkeypatch.setattr(scenarios, "vms_at_a_time", lambda: 2)
    session.idle = ("molecule-agents-2.19",)
    scenarios.run(session)  # type: ignore[arg-type]
    assert session.report.count.passed == 3


@given(
    wanted=strategies.dictionaries(strategies.text(min_size=1, max_size=3), strategies.integers(1, 5), min_size=1),
    room=strategies.integers(1, 6),
)
def test_all_are_begun_and_never_more_than_there_is_room_for(wanted: dict[str, int], room: int) -> None:
    waiting, running = scenarios.in_order(wanted), list[str]()
    while waiting or running:
        used = sum(wanted[name] for name in running)
        if name := scenarios.first_that_fits(waiting, wanted, room - used, alone=not running):
            waiting.remove(name)
            running.append(name)
            assert len(running) == 1 or used + wanted[name] <= room
        else:
            running.pop(0)


@pytest.mark.parametrize(
    ("cores", "memory", "vms"),
    [(2, 24 * GIB, 2), (4, 32 * GIB, 4), (8, 8 * GIB, 1), (1, 64 * GIB, 1), (64, 512 * GIB, 12), (2, GIB, 1)],
)
def test_vms_by_cores_and_memory(cores: int, memory: int, vms: int) -> None:
    assert scenarios.vms_at_a_time(cores, memory) == vms


def test_every_scenario_says_how_many_vms_it_makes() -> None:
    files = list(COLLECTION.glob("molecule/*/cluster.yml"))
    assert len(files) > 5
    listed = {file.parent.name: yaml.safe_load(file.read_text())["cluster_options"].count("--node") for file in files}
    assert listed == {file.parent.name: scenarios.vms(file.parent) for file in files}
    assert all(1 <= vms <= 3 for vms in listed.values())
