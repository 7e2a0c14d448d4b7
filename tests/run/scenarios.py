# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The part molecule: the scenarios in VMs, one after the other, some also with the newest ansible-core; each a test."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .report import Count, Outcome
from .setup import Session

WITH_NEWEST_CORE = ("healthy",)


def run(session: Session) -> None:
    """Run every scenario that has a molecule.yml."""
    names = sorted(path.parent.name for path in (session.stage.collection / "molecule").glob("*/molecule.yml"))
    if not names:
        session.report.ended("molecule", "scenarios", 0.0, Outcome(Count(), "there are no scenarios yet"))
    for name in names:
        run_scenario(session, name)
    for name in names:
        if name in WITH_NEWEST_CORE:
            run_scenario(session.with_newest_core(), name)


def run_scenario(session: Session, name: str) -> None:
    """Run one scenario; every Ansible in it is that of the session's tools."""
    began = time.monotonic()
    command: list[str | Path] = [session.tools.command("molecule"), "test", "--scenario-name", name]
    # The cluster ends with us, also when we are killed.
    status, log = session.run(command, f"molecule-{name}-{session.tools.core}", COLOCATION_OWNER=str(os.getpid()))
    outcome = Outcome(Count(passed=int(status == 0), failed=int(status != 0)), log=log)
    session.report.ended("molecule", session.named(name), time.monotonic() - began, outcome)
