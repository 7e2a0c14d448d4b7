# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The part molecule: the scenarios in VMs, one after the other; each is one test."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .report import Count, Outcome
from .setup import Session


def run(session: Session) -> None:
    """Run every scenario that has a molecule.yml."""
    names = sorted(path.parent.name for path in (session.stage.collection / "molecule").glob("*/molecule.yml"))
    if not names:
        session.report.ended("molecule", "scenarios", 0.0, Outcome(Count(), "there are no scenarios yet"))
    for name in names:
        began = time.monotonic()
        command: list[str | Path] = [session.tools.command("molecule"), "test", "--scenario-name", name]
        # The cluster ends with us, also when we are killed.
        status, log = session.run(command, f"molecule-{name}", COLOCATION_OWNER=str(os.getpid()))
        outcome = Outcome(Count(passed=int(status == 0), failed=int(status != 0)), log=log)
        session.report.ended("molecule", name, time.monotonic() - began, outcome)
