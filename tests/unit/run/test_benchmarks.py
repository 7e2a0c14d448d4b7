# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which benchmarks there are, and what counts as a pass."""

from __future__ import annotations

import ast
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest

from ansible_collections.colocation.kubernetes.tests.run import benchmarks
from ansible_collections.colocation.kubernetes.tests.run.environment import Tools
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn, Report
from ansible_collections.colocation.kubernetes.tests.run.stage import Stage

BENCHMARKS = benchmarks.known(Path(__file__).parents[2] / "bench")


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
    assert benchmarks.result("extender", status, output).passed is good


@pytest.mark.parametrize("file", BENCHMARKS.values(), ids=lambda file: file.stem)
def test_every_benchmark_writes_the_line_that_is_read(file: Path) -> None:
    """By its code, with a 1 for each figure: another word or colon, and `./bench` would never see it pass."""
    name = file.stem.replace("_", "-")
    nodes = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.JoinedStr))
    lines = [text for node in nodes if (text := filled(node)).startswith(f"{name}: ")]
    assert lines and all(benchmarks.VERDICT.match(line) for line in lines), lines


def filled(text: ast.JoinedStr) -> str:
    """An f-string with figures in it, and its verdict at the end."""
    parts = [str(part.value) if isinstance(part, ast.Constant) else "1" for part in text.values]
    return "".join([*parts[:-1], "PASS" if isinstance(text.values[-1], ast.FormattedValue) else parts[-1]])


def test_a_figure_and_its_target_are_told_apart() -> None:
    told = benchmarks.result("x", 0, "x: 0.5 × (of 2), 3 MiB (target ≤ 0.6 × (of 2), ≤ 4 MiB) PASS\n")
    assert (told.figure, told.target) == ("0.5 × (of 2), 3 MiB", "≤ 0.6 × (of 2), ≤ 4 MiB")


def test_the_table_has_every_figure_also_after_one_that_failed() -> None:
    results = [
        benchmarks.result("cri-proxy", 0, "cri-proxy: 0.47 × (target ≤ 0.5 ×) PASS\n"),
        benchmarks.result("extender", 1, "Traceback\nValueError: no\n"),
        benchmarks.result("placement", 1, "placement: 120 µs (target ≤ 100 µs) FAIL\n"),
    ]
    assert benchmarks.table(results).splitlines() == [
        "benchmark  figure                        target",
        "cri-proxy  0.47 ×                        ≤ 0.5 ×   PASS",
        "extender   none, it ended with status 1            FAIL",
        "placement  120 µs                        ≤ 100 µs  FAIL",
    ]


class Session:
    """Runs nothing; its benchmarks have said this."""

    def __init__(self, place: Path, said: dict[str, str]) -> None:
        self.stage = Stage(place)
        self.tools = Tools(place, "3.11", "2.19")
        self.out = StringIO()
        self.report = Report(self.out)
        self._place, self._said = place, said

    def run(self, _command: object, log: str, **_variables: str) -> tuple[int, Path]:
        name = log.removeprefix("bench-")
        if self._said[name] == "stopped":
            raise KeyboardInterrupt
        file = self._place / log
        file.write_text(f"$ command\n{self._said[name]}\n")
        return (0 if "PASS" in self._said[name] else 1), file


def test_all_are_run_and_told_whichever_fails(tmp_path: Path, known: dict[str, Path]) -> None:
    said = {"cri-proxy": "it broke", "extender": "extender: 1 ms (target ≤ 5 ms) PASS"}
    session = Session(tmp_path, said)
    assert benchmarks.run(cast(Any, session), known) == 1
    *_before, head, first, second = session.out.getvalue().splitlines()
    assert head.startswith("benchmark")
    assert first.split() == ["cri-proxy", "none,", "it", "ended", "with", "status", "1", "FAIL"]
    assert second.split() == ["extender", "1", "ms", "≤", "5", "ms", "PASS"]


def test_a_run_that_is_stopped_tells_what_it_has(tmp_path: Path, known: dict[str, Path]) -> None:
    session = Session(tmp_path, {"cri-proxy": "cri-proxy: 1 × (target 2 ×) PASS", "extender": "stopped"})
    with pytest.raises(KeyboardInterrupt):
        benchmarks.run(cast(Any, session), known)
    assert session.out.getvalue().splitlines()[-1].startswith("cri-proxy  1 ×")
