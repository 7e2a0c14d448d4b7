# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Counting test cases as pytest and ansible-test write them."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.run.junit import count
from ansible_collections.colocation.kubernetes.tests.run.report import Count

PYTEST = """<testsuites><testsuite name="pytest">
  <testcase classname="a" name="passes"/>
  <testcase classname="a" name="fails"><failure message="no"/></testcase>
  <testcase classname="a" name="breaks"><error message="fixture"/></testcase>
  <testcase classname="a" name="skipped"><skipped message="no kvm"/></testcase>
</testsuite></testsuites>"""
INAPPLICABLE = """<testsuites><testsuite><testcase name="pslint"><skipped>No tests applicable.</skipped></testcase>
</testsuite></testsuites>"""


def test_cases_of_all_files_are_counted(tmp_path: Path) -> None:
    for name, text in (("a.xml", PYTEST), ("b.xml", PYTEST)):
        (tmp_path / name).write_text(text)
    assert count(tmp_path.glob("*.xml")) == Count(passed=2, failed=4, skipped=2)


def test_a_check_that_concerns_no_file_is_not_a_test(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(INAPPLICABLE)
    assert count([tmp_path / "a.xml"]) == Count()
