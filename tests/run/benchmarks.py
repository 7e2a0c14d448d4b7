# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Runs the benchmarks: files in tests/bench, each ending with one line `name: figure (target …) PASS|FAIL`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .packages import last_lines
from .report import CannotGoOn
from .setup import Session

VERDICT = re.compile(r"^(?P<name>[a-z0-9-]+): (?P<figure>.+) \(target (?P<target>.+)\) (?P<verdict>PASS|FAIL)$")


@dataclass(frozen=True, slots=True)
class Result:
    """What a benchmark came to; one that ended without a figure has failed."""

    name: str
    figure: str
    target: str
    passed: bool


def known(directory: Path) -> dict[str, Path]:
    """The benchmarks by name: a file cri_proxy.py is `cri-proxy`, one with a leading underscore is none."""
    return {path.stem.replace("_", "-"): path for path in sorted(directory.glob("[!_]*.py"))}


def select(benchmarks: dict[str, Path], names: Sequence[str]) -> dict[str, Path]:
    """Those asked for, all where none is."""
    unknown = [name for name in names if name not in benchmarks]
    if unknown:
        listed = ", ".join(benchmarks) or "there are none yet"
        raise CannotGoOn(f"There is no benchmark called {', '.join(unknown)}. Benchmarks: {listed}.")
    return {name: benchmarks[name] for name in names} if names else benchmarks


def run(session: Session, benchmarks: dict[str, Path]) -> int:
    """Run benchmarks one by one, then tell all figures; 1 if one misses its target or is not given."""
    results: list[Result] = []
    try:
        for name in benchmarks:
            results.append(_run_one(session, name))
    finally:  # also of a run that is told to stop
        session.report.say(f"\n{table(results)}")
    return 0 if all(result.passed for result in results) else 1


def _run_one(session: Session, name: str) -> Result:
    began = time.monotonic()
    script = session.stage.collection / "tests" / "bench" / f"{name.replace('-', '_')}.py"
    agents = session.stage.collection / "files" / "agents"  # as pytest has it: benchmarks measure agents too
    found = f"{session.stage.root}:{agents}"
    status, log = session.run([session.tools.python, script], f"bench-{name}", PYTHONPATH=found)
    text = log.read_text(errors="replace")
    session.report.say(text.partition("\n")[2].rstrip() or last_lines(log))
    session.report.say(f"{name} took {time.monotonic() - began:.1f} s")
    return result(name, status, text)


def result(name: str, status: int, output: str) -> Result:
    """What the last line says; to pass, the benchmark must have ended well, too."""
    lines = [line for line in output.split("\n") if line.strip()]
    verdict = VERDICT.match(lines[-1]) if lines else None
    if verdict is None or verdict["name"] != name:
        return Result(name, f"none, it ended with status {status}", "", False)
    return Result(name, verdict["figure"], verdict["target"], status == 0 and verdict["verdict"] == "PASS")


def table(results: Sequence[Result]) -> str:
    """All figures beside their targets."""
    rows = [("benchmark", "figure", "target", "")]
    rows += [(one.name, one.figure, one.target, "PASS" if one.passed else "FAIL") for one in results]
    widths = [*(max(len(row[column]) for row in rows) for column in range(3)), 0]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
