# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Runs the benchmarks: files in tests/bench, each ending with one line `name: figure (target …) PASS|FAIL`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from .packages import last_lines
from .report import CannotGoOn
from .setup import Session

VERDICT = re.compile(r"^(?P<name>[a-z0-9-]+): .+ \(target .+\) (?P<verdict>PASS|FAIL)$")


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
    """Run benchmarks one by one; 1 if a figure misses its target or none is given."""
    missed = False
    for name in benchmarks:
        began = time.monotonic()
        script = session.stage.collection / "tests" / "bench" / f"{name.replace('-', '_')}.py"
        agents = session.stage.collection / "files" / "agents"  # as pytest has it: benchmarks measure agents too
        found = f"{session.stage.root}:{agents}"
        status, log = session.run([session.tools.python, script], f"bench-{name}", PYTHONPATH=found)
        text = log.read_text(errors="replace")
        session.report.say(text.partition("\n")[2].rstrip() or last_lines(log))
        session.report.say(f"{name} took {time.monotonic() - began:.1f} s")
        missed |= not passed(name, status, text)
    return 1 if missed else 0


def passed(name: str, status: int, output: str) -> bool:
    """Whether a benchmark ended well, with a last line that says so."""
    lines = output.split("\n") if output else []
    last = next((line for line in reversed(lines) if line.strip()), "")
    verdict = VERDICT.match(last)
    return status == 0 and verdict is not None and verdict["name"] == name and verdict["verdict"] == "PASS"
