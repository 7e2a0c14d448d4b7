# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The demo: a small cluster of VMs, a node that is broken, the collection run against it, and what to look at."""

from __future__ import annotations

from pathlib import Path

from .process import child
from .report import CannotGoOn
from .setup import Session

NAME = "demo"
NODES = ("plain", "plain")
BROKEN = ("swap-file", "containerd-cgroupfs", "kubelet-disabled")
LOOK = """
Look around:
  tests/cluster/cluster kubectl --name demo get nodes -o wide
  tests/cluster/cluster ssh --name demo worker1
  ansible-playbook -i {inventory} playbooks/site.yml            # a second run changes nothing
  ansible-playbook -i {inventory} playbooks/uninstall.yml       # puts the nodes back
(ansible-playbook is in {tools}.) Remove it all: ./demo --destroy"""


def up(session: Session) -> None:
    """Make the cluster, break a node, run the playbook, show the state."""
    inventory = session.places.cache / "demo" / "inventory.yml"
    inventory.parent.mkdir(parents=True, exist_ok=True)
    playbook = session.stage.collection / "playbooks" / "site.yml"
    nodes = [word for shape in NODES for word in ("--node", shape)]
    _step(session, "a control plane and two workers (the first time, all of Kubernetes is built: some 15 minutes)",
          [_tool(session), "up", "--again", "--name", NAME, *nodes])  # fmt: skip
    _step(session, f"worker1 breaks, as nodes do: {', '.join(BROKEN)}",
          [_tool(session), "break", "--name", NAME, "worker1", *BROKEN])  # fmt: skip
    _step(session, "an inventory", [_tool(session), "inventory", "--name", NAME, "--output", inventory])
    _step(session, "playbooks/site.yml: look at every host, then mend what is mendable, one node after the other",
          [session.tools.command("ansible-playbook"), "-i", inventory, playbook])  # fmt: skip
    _step(session, "the nodes", [_tool(session), "kubectl", "--name", NAME, "get", "nodes", "-o", "wide"])
    session.report.say(LOOK.format(inventory=inventory, tools=session.tools.command("ansible-playbook").parent))


def down(session: Session) -> None:
    """Remove the cluster."""
    _step(session, "the cluster goes", [_tool(session), "down", "--name", NAME])


def _tool(session: Session) -> Path:
    """The cluster tool of the checkout, not of the stage: its machines outlive this run."""
    return session.places.checkout / "tests" / "cluster" / "cluster"


def _step(session: Session, name: str, command: list[str | Path]) -> None:
    """Run something with its output in sight."""
    session.report.say(f"\n=== {name}")
    with session.report.setting_up(name.partition(":")[0].partition(" (")[0]):
        with child(command, env=session.variables, cwd=session.stage.collection) as process:
            status = process.wait()
        if status != 0:
            raise CannotGoOn(f"This failed: {name}")
