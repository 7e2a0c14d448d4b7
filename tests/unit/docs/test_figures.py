# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The page of figures has each benchmark, and says no other name."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.run import benchmarks

COLLECTION = Path(__file__).parents[3]


def test_every_benchmark_has_its_figure() -> None:
    told = re.findall(r"^\| `([a-z-]+)` \|", (COLLECTION / "docs" / "figures.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(benchmarks.known(COLLECTION / "tests" / "bench"))
