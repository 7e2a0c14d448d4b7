# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The lines of a run and the count at its end."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn, Count, Outcome, Report

counts = st.builds(Count, *[st.integers(0, 99)] * 3)


def lines(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


@given(st.lists(counts))
def test_the_last_line_sums_all_parts(all_counts: list[Count]) -> None:
    out = io.StringIO()
    report = Report(out)
    for count in all_counts:
        report.ended("unit", "pytest", 1.0, Outcome(count))
    status = report.finish()
    found = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", lines(out)[-1])
    assert found
    passed, failed, skipped = (int(number or 0) for number in found.groups())
    assert (passed, failed) == (sum(c.passed for c in all_counts), sum(c.failed for c in all_counts))
    assert skipped == sum(c.skipped for c in all_counts)
    assert status == (1 if failed else 0)


def test_skipped_tests_are_named_only_where_there_are_some() -> None:
    assert str(Count(3, 0)) == "3 passed, 0 failed"
    assert str(Count(3, 1, 2)) == "3 passed, 1 failed, 2 skipped"


def test_the_output_of_what_failed_is_shown_and_of_what_passed_is_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("the story\n")
    out = io.StringIO()
    report = Report(out)
    report.ended("lint", "ruff", 0.1, Outcome(Count(passed=1), log=log))
    assert "the story" not in out.getvalue()
    report.ended("lint", "mypy", 0.1, Outcome(Count(failed=1), log=log))
    assert "the story" in lines(out)


def test_a_part_without_tests_says_so() -> None:
    out = io.StringIO()
    Report(out).ended("molecule", "scenarios", 0.0, Outcome(Count(), "there are no scenarios yet"))
    assert out.getvalue().rstrip().endswith("nothing: there are no scenarios yet")


def test_a_set_up_step_that_fails_is_named_with_its_time() -> None:
    out = io.StringIO()
    with pytest.raises(CannotGoOn), Report(out).setting_up("virtual environment"):
        raise CannotGoOn("no network")
    assert re.fullmatch(r"set-up  virtual environment +0\.0 s  FAILED", lines(out)[0])
