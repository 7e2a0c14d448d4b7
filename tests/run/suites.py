# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The parts that are pytest suites: unit, and contract with real counterparts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from . import junit, packages
from .report import Count, Outcome
from .setup import Session
from .stage import held_directory

# Tests make sockets in it, whose paths must stay below 108 characters.
SHORT = Path(f"/tmp/colocation-tests-{os.getuid()}")
NO_TESTS = 5  # pytest's exit status

IN_BROWSER = "tests/contract/report_page"
SPREAD = ("-n", "2", "--dist", "worksteal")
SPREAD_BY_FILE = ("-n", "2", "--dist", "loadfile")  # what the tests of a file share is made once
WHERE_THE_CORE_COUNTS = {
    "unit": ("tests/unit/plugins", "tests/unit/artifact"),
    "contract": ("tests/contract/preflight",),
}


def run_unit(session: Session) -> None:
    """The pure logic, the engine itself and the artifact; then what knows Ansible, with the newest."""
    run_suite(session, "unit", options=SPREAD)
    run_suite(session.with_newest_core(), "unit", WHERE_THE_CORE_COUNTS["unit"], SPREAD)


def run_contract(session: Session) -> None:
    """Tests against real processes, which mostly wait, so two files at a time. Plays run with the newest too."""
    browser = packages.command_of(packages.BROWSER)
    run_suite(session, "contract", options=(*SPREAD_BY_FILE, *(() if browser else (f"--ignore={IN_BROWSER}",))))
    if not browser:
        outcome = Outcome(Count(skipped=1), f"{packages.BROWSER.name} can't be had here")
        session.report.ended("contract", "the demo's page in a browser", 0.0, outcome)
    run_suite(session.with_newest_core(), "contract", WHERE_THE_CORE_COUNTS["contract"])


def run_suite(session: Session, part: str, places: Sequence[str] = (), options: Sequence[str] = ()) -> None:
    """Run the tests of a part, or of these places in it, and count them; that there are none would be a mistake."""
    began = time.monotonic()
    name = f"{part}-{session.tools.core}"
    results = session.logs / f"{name}.xml"
    pytest: list[str | Path] = [session.tools.command("pytest"), "--tb=short", "-p", "no:cacheprovider"]
    with held_directory(SHORT) as scratch:
        more = (f"--junit-xml={results}", f"--basetemp={scratch / 'p'}", *options)
        status, log = session.run([*pytest, *more, *(places or [f"tests/{part}"])], name)
    counted = junit.count([results]) if results.exists() else Count()
    if status == NO_TESTS or (status != 0 and counted.failed == 0):
        counted += Count(failed=1)  # no tests, or broken before the first
    session.report.ended(part, session.named("pytest"), time.monotonic() - began, Outcome(counted, str(counted), log))
