# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the part contract does where there is no browser."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import packages, suites
from ansible_collections.colocation.kubernetes.tests.run.report import Count, Report


def contract(monkeypatch: pytest.MonkeyPatch, browser: str | None) -> tuple[list[tuple[str, ...]], Report, str]:
    """The options of the suites that are run, and what is reported."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(suites, "run_suite", lambda _session, _part, *_places, options=(): ran.append(options))
    monkeypatch.setattr(packages, "command_of", lambda _package: browser)
    out = io.StringIO()
    report = Report(out)
    session: Any = SimpleNamespace(report=report, with_newest_core=lambda: session)
    suites.run_contract(session)
    return ran, report, out.getvalue()


def test_the_page_is_tried_where_there_is_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, report, said = contract(monkeypatch, "/usr/bin/it")
    assert ran == [suites.SPREAD_BY_FILE, ()]
    assert (report.count, said) == (Count(), "")


def test_where_there_is_none_that_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, report, said = contract(monkeypatch, None)
    assert ran == [(*suites.SPREAD_BY_FILE, f"--ignore={suites.IN_BROWSER}"), ()]
    assert report.count == Count(skipped=1)
    assert "can't be had here" in said


def test_what_is_left_out_is_there() -> None:
    assert list((Path(__file__).resolve().parents[3] / suites.IN_BROWSER).glob("test_*.py"))
