# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The demo: a small cluster of VMs, the story told in it, and a page that shows how it went."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .places import shown
from .process import child
from .report import CannotGoOn
from .setup import Session
from .story.chapters import STORY
from .story.page import Telling, Told, page
from .story.plays import table
from .story.plot import clock
from .story.props import offer, stands
from .story.scene import Scene
from .story.steps import Step, StepFailed, Trouble, tell
from .story.timeline import to_document
from .story.watching import watching

Story = tuple[Step[Scene], ...]

NAME = "demo"
NODES = ("dhyana,memory=3G", "cxl,cpus=2")
IMAGES = {"worker2": ("kube-scheduler", "python")}  # what the scheduler runs on; there is no registry
TITLE = "Colocation on a small cluster"
LOOK = """
Look around:
  {page}
  tests/cluster/cluster kubectl --name demo get nodes -o wide
  tests/cluster/cluster ssh --name demo worker1
{more}
Tell it again: ./demo. Remove it all: ./demo --destroy"""


def chapters(until: str = "") -> Story:
    """The steps of the story, up to and including one."""
    names = [step.name for step in STORY]
    if until and until not in names:
        raise CannotGoOn(f"There is no step called {until}. Steps: {', '.join(names)}.")
    return STORY[: names.index(until) + 1] if until else STORY


def up(session: Session, steps: Story) -> None:
    """Make the cluster or take the one that stands, tell the story, write the page."""
    home = session.places.cache / "demo"
    home.mkdir(parents=True, exist_ok=True)
    inventory = home / "inventory.yml"
    fresh = not stands_already(session, home)
    if fresh:
        nodes = [word for shape in NODES for word in ("--node", shape)]
        _made(home).unlink(missing_ok=True)
        _step(session, "a control plane and two workers (the first time, all of Kubernetes is built: some 15 minutes)",
              [_tool(session), "up", "--again", "--name", NAME, *nodes])  # fmt: skip
    else:
        session.report.say("\n=== the cluster of an earlier run stands; ./demo --destroy removes it")
    _step(session, "an inventory", [_tool(session), "inventory", "--name", NAME, "--output", inventory])
    scene = Scene(session, NAME, inventory, ["worker1", "worker2"])
    # At the same time: the first waits for two emulated processors, the second for another's disk.
    with session.report.setting_up("what stands on the nodes, images for the scheduler"), ThreadPoolExecutor(1) as pool:
        loaded = pool.submit(_load_images, scene)
        scene.before = _before(scene, home, fresh)
        loaded.result()
    tell_and_show(session, scene, steps, home / "report.html")
    installed = steps[-1] is not STORY[-1]
    more = _site_again(session, scene) if installed else "  ./demo --until hot-node (in the end all is still there)"
    page_shown, inventory_shown = shown(home / "report.html", session.environ), shown(inventory, session.environ)
    session.report.say(LOOK.format(page=page_shown, inventory=inventory_shown, more=more))


def _site_again(session: Session, scene: Scene) -> str:
    """How site.yml is run from the checkout so that it changes nothing: with all that the story told it."""
    words = ["-i", shown(scene.inventory, session.environ), *offer(scene, Path())]
    tools = shown(session.tools.command("ansible-playbook").parent, session.environ)
    return f"  ansible-playbook {' '.join(words)} playbooks/site.yml\n(ansible-playbook is in {tools}.)"


def down(session: Session) -> None:
    """Remove the cluster, and what was known of it; the page stays."""
    _made(session.places.cache / "demo").unlink(missing_ok=True)
    _step(session, "the cluster goes", [_tool(session), "down", "--name", NAME])


def stands_already(session: Session, home: Path) -> bool:
    """Whether a cluster of this shape runs whose nodes were looked at before the first run."""
    try:
        made = json.loads(_made(home).read_text())
    except (OSError, ValueError):
        return False
    status, log = session.run([_tool(session), "status", "--json"], "cluster-status")
    if status != 0 or made.get("nodes") != list(NODES):
        return False
    known = json.loads(log.read_text().partition("\n")[2])
    return any(one["name"] == NAME and one["state"] == "runs" for one in known)


def _made(home: Path) -> Path:
    return home / "made.json"


def _before(scene: Scene, home: Path, fresh: bool) -> dict[str, list[str]]:
    """What stood on the nodes before the first run: looked at now, or remembered."""
    if not fresh:
        remembered: dict[str, Any] = json.loads(_made(home).read_text())
        return {node: list(lines) for node, lines in remembered["before"].items()}
    try:
        before = stands(scene)
    except Trouble as trouble:
        raise CannotGoOn(str(trouble)) from None
    _made(home).write_text(json.dumps({"nodes": list(NODES), "before": before}))
    return before


def _load_images(scene: Scene) -> None:
    for node, images in IMAGES.items():
        try:
            there = scene.ssh(node, "ctr -n k8s.io images ls -q 2>/dev/null || true")
            missing = [image for image in images if f"/{image}:" not in there]
            if missing:
                scene.tool("load", node, *missing, limit=600)
        except Trouble as trouble:
            raise CannotGoOn(f"{node} does not take the images of the scheduler: {trouble}") from None


def tell_and_show(session: Session, scene: Scene, steps: Story, target: Path) -> None:
    """Tell the story; the page is written however it ends."""
    told: list[Told] = []
    scene.begin()
    when = time.strftime("%Y-%m-%d %H:%M")
    try:
        with scene.with_api(), watching(scene):
            tell(steps, scene, scene, told)
    except (StepFailed, Trouble) as failed:
        number = len(told)
        raise CannotGoOn(_why(session, failed, number, steps)) from None
    finally:
        texts = scene.texts | {"How long the playbooks took, play by play": table(scene.played)}
        telling = Telling(TITLE, when, tuple(told), scene.series(), scene.events(), tuple(texts.items()))
        times = {"set_up": session.report.set_up, "playbooks": [asdict(one) for one in scene.played]}
        _write(target, telling, times)
        session.report.say(f"\nThe report: {shown(target, session.environ)}")
    session.report.say("\n" + "\n".join(f"  {clock(one.end - one.begin):>6}  {one.title}" for one in told))


def _why(session: Session, failed: Exception, number: int, steps: Story) -> str:
    step = steps[number - 1] if 0 < number <= len(steps) else None
    name = f"Step {number} failed: {step.title}." if step else "The story could not begin."
    said = f"  expected: {failed.expected}\n  seen: {failed.seen}" if isinstance(failed, StepFailed) else f"  {failed}"
    return (
        f"{name}\n{said}\n  logs: {shown(session.logs, session.environ)}, "
        f"tests/cluster/cluster log --name {NAME} worker1, tests/cluster/cluster ssh --name {NAME} worker1 journalctl\n"
        "The cluster stands as it is; ./demo tells the story again from the beginning."
    )


def _write(target: Path, telling: Telling, times: dict[str, Any]) -> None:
    """The page, and beside it the figures for programs; never half of them."""
    document = {**times, "steps": [asdict(one) for one in telling.told], "series": to_document(telling.series)}
    for path, text in ((target, page(telling)), (target.with_suffix(".json"), json.dumps(document))):
        partly = path.with_suffix(path.suffix + ".new")
        partly.write_text(text, encoding="utf-8")
        shutil.move(partly, path)


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
