# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The demo: a small cluster of VMs, the collection run against it, and what to look at."""

from __future__ import annotations

from pathlib import Path

from .packages import last_lines
from .report import CannotGoOn
from .setup import Session

NAME = "demo"


def up(session: Session) -> None:
    """Make the cluster, run the playbook, show the state."""
    inventory = session.places.cache / "demo" / "inventory.yml"
    inventory.parent.mkdir(parents=True, exist_ok=True)
    _step(session, "cluster up", [_tool(session), "up", "--name", NAME])
    _step(session, "inventory", [_tool(session), "inventory", "--name", NAME, "--output", inventory])
    playbook = session.stage.collection / "playbooks" / "site.yml"
    _step(session, "site.yml", [session.tools.command("ansible-playbook"), "-i", inventory, playbook])
    log = _step(session, "status", [_tool(session), "status", "--name", NAME])
    session.report.say(log.read_text(errors="replace").partition("\n")[2].rstrip())
    session.report.say("Look around: tests/cluster/cluster --help. Remove it: ./demo --destroy")


def down(session: Session) -> None:
    """Remove the cluster."""
    _step(session, "cluster down", [_tool(session), "down", "--name", NAME])


def _tool(session: Session) -> Path:
    """The cluster tool of the checkout, not of the stage: its machines outlive this run."""
    tool = session.places.checkout / "tests" / "cluster" / "cluster"
    if not tool.exists():
        raise CannotGoOn("tests/cluster/cluster is not there yet: the demo has no cluster to run on.")
    return tool


def _step(session: Session, name: str, command: list[str | Path]) -> Path:
    with session.report.setting_up(name):
        status, log = session.run(command, f"demo-{name.replace(' ', '-')}")
        if status != 0:
            raise CannotGoOn(f"{name} failed:\n{last_lines(log, 40)}")
    return log
