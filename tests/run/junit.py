# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Counts the test cases of JUnit XML files, as pytest and ansible-test write them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from .report import Count

INAPPLICABLE = "No tests applicable."  # ansible-test on a check that no file of ours concerns: not a test at all


def count(paths: Iterable[Path]) -> Count:
    """All test cases in these files."""
    return sum((_case(case) for path in paths for case in ET.parse(path).iter("testcase")), Count())


def _case(case: ET.Element) -> Count:
    if case.find("failure") is not None or case.find("error") is not None:
        return Count(failed=1)
    skipped = case.find("skipped")
    if skipped is None:
        return Count(passed=1)
    return Count() if (skipped.text or "").strip() == INAPPLICABLE else Count(skipped=1)
