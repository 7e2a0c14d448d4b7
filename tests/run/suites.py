# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The parts that are pytest suites: unit, and contract with real counterparts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from . import junit
from .report import Count, Outcome
from .setup import Session, cluster_tool
from .stage import held_directory

# Tests make sockets in it, whose paths must stay below 108 characters.
SHORT = Path(f"/tmp/colocation-tests-{os.getuid()}")
CONTAINERD = ("1.7", "2.3")  # that the contract tests ask for
NO_TESTS = 5  # pytest's exit status


def run_unit(session: Session) -> None:
    """The pure logic, the engine itself and the artifact; that there are none would be a mistake."""
    run_suite(session, "unit", may_be_empty=False, options=("-n", "2", "--dist", "worksteal"))


def run_contract(session: Session) -> None:
    """Tests against real processes; one at a time, since two cores are not many."""
    with session.report.setting_up("containerd " + ", ".join(CONTAINERD)):
        said = cluster_tool(session, "build", *(f"containerd@{version}" for version in CONTAINERD))
    programs = dict(zip(CONTAINERD, said[-len(CONTAINERD) :], strict=True))
    variables = {f"COLOCATION_CONTAINERD_{version.replace('.', '_')}": path for version, path in programs.items()}
    run_suite(session, "contract", may_be_empty=True, variables=variables)


def run_suite(
    session: Session,
    name: str,
    may_be_empty: bool,
    options: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run the tests of one directory and count them."""
    began = time.monotonic()
    directory = session.stage.collection / "tests" / name
    if may_be_empty and not any(directory.rglob("test_*.py")):
        session.report.ended(name, "pytest", 0.0, Outcome(Count(), "there are no tests in this part yet"))
        return
    results = session.logs / f"{name}.xml"
    pytest: list[str | Path] = [session.tools.command("pytest"), "--tb=short", "-p", "no:cacheprovider"]
    with held_directory(SHORT) as scratch:
        more = (f"--junit-xml={results}", f"--basetemp={scratch / 'p'}", *options)
        status, log = session.run([*pytest, *more, f"tests/{name}"], name, **variables)
    counted = junit.count([results]) if results.exists() else Count()
    if status == NO_TESTS or (status != 0 and counted.failed == 0):
        counted += Count(failed=1)  # no tests, or broken before the first
    session.report.ended(name, "pytest", time.monotonic() - began, Outcome(counted, str(counted), log))
