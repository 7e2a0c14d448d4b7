# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The part molecule: the scenarios in VMs, some with the newest ansible-core; each is a test.

One scenario wants two cores: its VMs are emulated, and a kubelet that only waits costs a fifth of a core there. With
two at a time on two cores everything took four times as long. Larger machines run several.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .report import Count, Outcome
from .setup import Session

WITH_NEWEST_CORE = ("healthy",)
LONGEST = ("agents", "rejoin", "rollout", "node_prep")  # begun first, or one of them would run alone at the end
CORES_OF_ONE = 2
MEMORY_OF_ONE = 7 << 30  # bytes: three VMs, a control plane, and what the page cache saves


def run(session: Session) -> None:
    """Run every scenario that has a molecule.yml."""
    found = {path.parent.name for path in (session.stage.collection / "molecule").glob("*/molecule.yml")}
    if not found:
        session.report.ended("molecule", "scenarios", 0.0, Outcome(Count(), "there are no scenarios yet"))
    names = [name for name in LONGEST if name in found] + sorted(found.difference(LONGEST))
    sessions = {name: session.with_newest_core() if name in WITH_NEWEST_CORE else session for name in names}
    with ThreadPoolExecutor(at_a_time()) as lanes:
        try:
            for done in [lanes.submit(run_scenario, sessions[name], name) for name in names]:
                done.result()
        finally:
            lanes.shutdown(wait=False, cancel_futures=True)  # a run that is told to end begins no further scenario


def at_a_time(cores: int | None = None, memory: int | None = None) -> int:
    """How many scenarios this machine can bear."""
    cores = cores or len(os.sched_getaffinity(0))
    memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores // CORES_OF_ONE, memory // MEMORY_OF_ONE, 4))


def run_scenario(session: Session, name: str) -> None:
    """Run one scenario, in which every Ansible is that of the session's tools."""
    began = time.monotonic()
    command: list[str | Path] = [session.tools.command("molecule"), "test", "--scenario-name", name]
    # The cluster ends with us, also when we are killed.
    status, log = session.run(command, f"molecule-{name}-{session.tools.core}", COLOCATION_OWNER=str(os.getpid()))
    outcome = Outcome(Count(passed=int(status == 0), failed=int(status != 0)), log=log)
    session.report.ended("molecule", session.named(name), time.monotonic() - began, outcome)
