# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The parts molecule and long: the scenarios in VMs, some with the newest ansible-core; each is a test.

How many run at a time is counted in VMs: they are emulated, and a kubelet that only waits costs a fifth of a core.
With five VMs on two cores everything took four times as long, with three twice. A scenario whose VMs only wait from
then on says so by making the file that COLOCATION_WAITS names, and the next one is begun beside it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from .report import Count, Outcome
from .setup import Session

WITH_NEWEST_CORE = ("healthy",)
# Begun first, or one of them would run alone at the end; not memory beside cri_proxy, whose node is the busiest, so
# shorter ones stand between them.
FIRST = ("agents", "memory", "gpu", "rejoin", "healthy", "cri_proxy")
LONG = ("scheduler", "upgrade", "drill", "rollout")  # what CI has no time for: ./test long
MEMORY_OF_ONE = 5 << 30  # bytes: a VM, its share of a control plane, and what the page cache saves
MOST = 12
OPTIONS = re.compile(r"cluster_options\W*: *\[(.*?)\]", re.DOTALL)


def known(collection: Path) -> list[str]:
    """All scenarios."""
    return sorted(path.parent.name for path in collection.glob("molecule/*/molecule.yml"))


def run(session: Session) -> None:
    """The part molecule."""
    run_chosen(session, [name for name in known(session.stage.collection) if name not in LONG])


def run_long(session: Session) -> None:
    """The part long."""
    run_chosen(session, LONG)


def run_chosen(session: Session, names: Collection[str]) -> None:
    """Run these scenarios, as many at a time as the machine can bear."""
    wanted = {name: vms(session.stage.collection / "molecule" / name) for name in names}
    sessions = {name: session.with_newest_core() if name in WITH_NEWEST_CORE else session for name in wanted}
    waiting, room = in_order(wanted), vms_at_a_time()
    running: dict[Future[None], str] = {}

    def free() -> int:
        return room - sum(wanted[name] for name in running.values() if not waits_file(sessions[name], name).exists())

    with ThreadPoolExecutor(len(wanted)) as lanes:
        try:
            while waiting or running:
                while name := first_that_fits(waiting, wanted, free(), alone=not running):
                    waiting.remove(name)
                    running[lanes.submit(run_scenario, sessions[name], name)] = name
                for done in wait(running, 5, return_when=FIRST_COMPLETED).done:
                    del running[done]
                    done.result()
        finally:
            lanes.shutdown(wait=False, cancel_futures=True)  # a run that is told to end begins no further scenario


def in_order(wanted: Mapping[str, int]) -> list[str]:
    """Those of FIRST, then those with the most VMs."""
    others = sorted(wanted.keys() - set(FIRST), key=lambda name: (-wanted[name], name))
    return [name for name in FIRST if name in wanted] + others


def first_that_fits(waiting: list[str], wanted: Mapping[str, int], free: int, alone: bool) -> str:
    """Who is begun now; one that wants more than this machine can bear runs alone."""
    return next((name for name in waiting if wanted[name] <= free or alone), "")


def vms(scenario: Path) -> int:
    """How many VMs a scenario makes; the machine's own Python, which runs this, may know no YAML."""
    options = OPTIONS.search((scenario / "cluster.yml").read_text())
    return max(1, options[1].count("--node")) if options else 1


def vms_at_a_time(cores: int | None = None, memory: int | None = None) -> int:
    """How many VMs this machine can bear: one for each core."""
    cores = cores or len(os.sched_getaffinity(0))
    memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // MEMORY_OF_ONE, MOST))


def run_scenario(session: Session, name: str) -> None:
    """Run one scenario, in which every Ansible is that of the session's tools."""
    began = time.monotonic()
    command: list[str | Path] = [session.tools.command("molecule"), "test", "--scenario-name", name]
    label = label_of(session, name)
    variables = {
        "COLOCATION_OWNER": str(os.getpid()),  # the cluster ends with us, also when we are killed
        "COLOCATION_WAITS": str(waits_file(session, name)),
        # Molecule's own choice is one for all checkouts.
        "MOLECULE_EPHEMERAL_DIRECTORY": str(session.stage.root / "molecule" / name),
        # When each task began; beside it .runs, of the playbooks that the scenario runs.
        "ANSIBLE_LOG_PATH": str(session.logs / f"{label}.times"),
    }
    status, log = session.run(command, label, **variables)
    outcome = Outcome(Count(passed=int(status == 0), failed=int(status != 0)), log=log)
    session.report.ended("molecule", session.named(name), time.monotonic() - began, outcome)


def label_of(session: Session, name: str) -> str:
    return f"molecule-{name}-{session.tools.core}"


def waits_file(session: Session, name: str) -> Path:
    """Which the scenario makes when all that it still does is waiting."""
    return session.logs / f"{label_of(session, name)}.waits"
