# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which benchmarks there are, and what counts as a pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import benchmarks
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Path]:
    """Two benchmarks and a file that is none."""
    for name in ("cri_proxy.py", "extender.py", "_shared.py", "README.md"):
        (tmp_path / name).touch()
    return benchmarks.known(tmp_path)


def test_benchmarks_are_called_by_their_files_names(known: dict[str, Path]) -> None:
    assert list(known) == ["cri-proxy", "extender"]
    assert list(benchmarks.select(known, [])) == ["cri-proxy", "extender"]
    assert list(benchmarks.select(known, ["extender"])) == ["extender"]


def test_an_unknown_name_is_answered_with_the_known_ones(known: dict[str, Path]) -> None:
    with pytest.raises(CannotGoOn, match=r"called extnder\. Benchmarks: cri-proxy, extender"):
        benchmarks.select(known, ["extnder"])


@pytest.mark.parametrize(
    ("status", "output", "good"),
    [
        (0, "warm-up\nextender: p50 3 ms (target 5 ms) PASS\n", True),
        (0, "extender: p50 7 ms (target 5 ms) FAIL\n", False),
        (1, "extender: p50 3 ms (target 5 ms) PASS\n", False),
        (0, "extender: p50 3 ms (target 5 ms) PASS\nand then\n", False),
        (0, "other: p50 3 ms (target 5 ms) PASS\n", False),
        (0, "", False),
    ],
)
def test_a_pass_is_a_last_line_that_says_so_and_a_good_end(status: int, output: str, good: bool) -> None:
    assert benchmarks.passed("extender", status, output) is good
