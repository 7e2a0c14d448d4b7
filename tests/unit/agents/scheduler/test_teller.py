# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When trouble becomes an Event, and what becomes of one that can't be written."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from colocation.common.events import About
from colocation.scheduler import teller
from colocation.scheduler.teller import News, Subject, Teller, measuring, own_pod, watching

POD = {"POD_NAME": "p-1", "POD_NAMESPACE": "kube-system", "POD_UID": "uid-1"}


def test_each_change_is_told_once() -> None:
    subject = Subject("ColocationWatchFailed", "ColocationWatchRecovered")
    seen = [
        subject.look(problem, now)
        for now, problem in (
            (0, None),
            (1, ""),
            (2, "nodes: no answer"),
            (3, "nodes: 403"),
            (50, None),
            (62, ""),
            (99, ""),
        )
    ]
    assert [news for news in seen if news] == [
        News("ColocationWatchFailed", "nodes: no answer", "Warning"),
        News("ColocationWatchRecovered", "After 60 s; it was: nodes: no answer", "Normal"),
    ]


def test_what_flaps_is_told_twice_a_minute() -> None:
    subject = Subject("Failed", "Recovered")
    told = [now for now in range(600) if subject.look("no answer" if now % 2 else "", now)]
    assert len(told) <= 20
    assert all(later - sooner >= teller.LEAST_SECONDS for sooner, later in zip(told, told[1:], strict=False))


def engine(
    problem: str = "", last_good: float | None = 1.0, watches: tuple[str, str] = ("", ""), synced: bool = True
) -> Any:
    seen = [
        SimpleNamespace(kind=SimpleNamespace(name=name), health=SimpleNamespace(problem=said))
        for name, said in zip(("nodes", "pods"), watches, strict=True)
    ]
    rounds = SimpleNamespace(problem=problem, last_good=last_good)
    return SimpleNamespace(rounds=rounds, source=SimpleNamespace(name="prometheus"), watches=seen, synced=synced)


def test_what_is_a_problem_and_what_is_not_known_yet() -> None:
    assert measuring(engine()) == ""
    assert measuring(engine("no answer")) == "prometheus: no answer"
    assert measuring(engine(last_good=None)) is None
    assert watching(engine()) == ""
    assert watching(engine(watches=("gone", "403"))) == "nodes: gone; pods: 403"
    assert watching(engine(synced=False)) is None


def test_only_a_pod_that_knows_itself_tells() -> None:
    assert own_pod(POD) == About("Pod", "p-1", "uid-1", "kube-system")
    assert own_pod({}) is None
    assert own_pod({**POD, "POD_UID": ""}) is None


class ReporterDouble:
    """Remembers what was written; `refusal` is why nothing is."""

    def __init__(self) -> None:
        self.refusal = ""
        self.tries = 0
        self.written: list[tuple[str, str, str, datetime.datetime]] = []

    def say(self, about: About, reason: str, _message: str, when: datetime.datetime, kind: str) -> str:
        self.tries += 1
        if not self.refusal:
            self.written.append((about.name, reason, kind, when))
        return self.refusal


def test_what_could_not_be_written_is_tried_again_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    reporter: Any = ReporterDouble()
    now_is = engine()
    about = own_pod(POD)
    assert about is not None
    tells = Teller(about, reporter, lambda: now_is)
    tells.look(0)
    now_is, reporter.refusal = engine("no answer", watches=("gone", "")), "nobody answers"
    for now in range(1, 100):
        tells.look(now)
    assert reporter.tries == 4, "at once, and each half minute"
    assert [one.levelname for one in caplog.records if one.name == "teller"] == ["WARNING"]
    now_is, reporter.refusal = engine(), ""
    tells.look(130)
    assert [(name, reason, kind) for name, reason, kind, _when in reporter.written] == [
        ("p-1", "ColocationMeasuringFailed", "Warning"),
        ("p-1", "ColocationWatchFailed", "Warning"),
        ("p-1", "ColocationMeasuringRecovered", "Normal"),
        ("p-1", "ColocationWatchRecovered", "Normal"),
    ]
    tells.look(200)
    assert len(reporter.written) == 4
