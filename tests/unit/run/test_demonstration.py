# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The shell around the story: a playbook's progress and failure, and a page however it ends. Programs are stand-ins."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import demonstration, process
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn, Report
from ansible_collections.colocation.kubernetes.tests.run.story.scene import Scene
from ansible_collections.colocation.kubernetes.tests.run.story.steps import Look, Step, Trouble, Wait
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key

FAILING = """
echo 'PLAY [Prepare the nodes] ****'
echo 'TASK [node_prep : Look] ****'
echo 'fatal: [worker1]: FAILED! => {"msg": "no such thing"}'
echo 'PLAY RECAP ****'
echo 'worker1  : ok=3   changed=0    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0'
exit 2
"""


def session(tmp_path: Path, playbook: str = "exit 0") -> Any:
    """A session whose ansible-playbook is a script, and what it says."""
    program = tmp_path / "ansible-playbook"
    program.write_text(f"#!/bin/sh\n{playbook}\n")
    program.chmod(0o755)
    out = io.StringIO()
    return SimpleNamespace(
        places=SimpleNamespace(checkout=tmp_path, cache=tmp_path),
        report=Report(out),
        environ={"HOME": str(tmp_path)},
        logs=tmp_path,
        tools=SimpleNamespace(command=lambda _name: program),
        stage=SimpleNamespace(collection=tmp_path),
        variables={"PATH": "/usr/bin:/bin"},
        out=out,
    )


def scene(current: Any) -> Scene:
    return Scene(current, "demo", Path("inventory.yml"), ["worker1"])


def test_a_failed_playbook_is_told_by_its_first_fatal_line_and_its_log(tmp_path: Path) -> None:
    current = session(tmp_path, FAILING)
    play = scene(current)
    with pytest.raises(Trouble) as told:
        play.play("site.yml")
    assert "playbooks/site.yml ended with 2 at the task 'node_prep : Look'" in str(told.value)
    assert "no such thing" in str(told.value)
    log = Path(str(told.value).rpartition("log: ")[2])
    assert log.read_text().startswith("PLAY [Prepare the nodes]")
    assert play.recap == ["worker1: 3 ok, 0 changed, 1 failed"]
    assert "0:00  Prepare the nodes" in current.out.getvalue()


def test_each_playbook_has_a_log_of_its_own(tmp_path: Path) -> None:
    play = scene(session(tmp_path))
    play.play("site.yml")
    play.play("site.yml")
    assert len(list(tmp_path.glob("play-*.log"))) == 2


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    put_tool(tmp_path, "exec sleep 60")
    with pytest.raises(Trouble, match="no end within 0 s"):
        scene(session(tmp_path)).tool("kubectl", "get", "nodes", limit=0.2)


def put_tool(tmp_path: Path, script: str) -> None:
    tool = tmp_path / "tests" / "cluster" / "cluster"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_a_node_that_is_not_reached_at_once_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scene, "pause", lambda _self, _seconds: None)
    once = tmp_path / "once"
    put_tool(tmp_path, f"[ -e {once} ] && echo \"$@\" && exit; touch {once}; echo 'Connection timed out' >&2; exit 255")
    assert scene(session(tmp_path)).ssh("worker1", "uptime") == "ssh --name demo worker1 sh -c uptime\n"


def test_a_command_that_fails_on_a_node_is_not_tried_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    put_tool(tmp_path, f"echo >> {runs}; exit 255")
    with pytest.raises(Trouble, match="exit 255"):
        scene(session(tmp_path)).ssh("worker1", "uptime")
    assert runs.read_text() == "\n"


@pytest.mark.parametrize("gpus", [True, False])
def test_the_command_that_is_told_in_the_end_has_all_that_is_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: bool
) -> None:
    """Without the GPUs' file site.yml would take the GPUs away again."""
    put_tool(tmp_path, "exit 0")
    for name in ("stands_already", "tell_and_show", "_load_images", "_before"):
        monkeypatch.setattr(demonstration, name, lambda *_arguments: {})
    if gpus:
        double = tmp_path / "files" / "agents" / "colocation" / "device_plugin" / "gpu_file_double.py"
        double.parent.mkdir(parents=True)
        double.touch()
    current = session(tmp_path)
    demonstration.up(current, demonstration.chapters("hot-node"))
    files = [f"-e @tests/run/story/{name}" for name in ("offer.yml", "offer-gpu.yml")[: 1 + gpus]]
    told = current.out.getvalue()
    assert f"  ansible-playbook -i ~/demo/inventory.yml {' '.join(files)} playbooks/site.yml\n" in told
    demonstration.up(current, demonstration.chapters())
    assert "ansible-playbook" not in current.out.getvalue()[len(told) :]  # nothing is in force any more


def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Scene], None], current: Any = None) -> None:
    """Tell a story of two steps; the first works, the second does `act` and waits for what never comes."""
    monkeypatch.setattr(Scene, "with_api", lambda _self: contextlib.nullcontext())
    monkeypatch.setattr(demonstration, "watching", lambda _scene: contextlib.nullcontext())
    current = current or session(tmp_path)
    steps: tuple[Step[Scene], ...] = (
        Step("one", "One", "", act=lambda s: s.record({Key("blocks", "worker1", "offered"): 7})),
        Step("two", "Two", "", act=act, until=Wait("the moon", lambda _s: Look(False, "no moon"), 0)),
    )
    demonstration.tell_and_show(current, scene(current), steps, tmp_path / "report.html")


def test_a_story_that_fails_says_what_was_expected_and_seen_and_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotGoOn) as problem:
        tell(tmp_path, monkeypatch, lambda _scene: None)
    for word in ("Step 2 failed: Two.", "expected: the moon, within 0:00", "seen: no moon", "logs: ", "journalctl"):
        assert word in str(problem.value)
    page = (tmp_path / "report.html").read_text()
    assert "It failed in step 2, Two" in page
    assert "worker1, offered" in page
    figures = json.loads((tmp_path / "report.json").read_text())
    assert figures["series"][0]["samples"][0][1] == 7
    assert [step["outcome"] for step in figures["steps"]] == ["done", "failed"]


def test_the_times_of_playbooks_and_of_setting_up_are_on_the_page_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ("PLAY [Prepare the nodes] ****", "PLAY RECAP ****", "w : ok=3 changed=2 unreachable=0 failed=0 skipped=0")
    current = session(tmp_path, "\n".join(f"echo '{line}'" for line in lines))
    with current.report.setting_up("an inventory"):
        pass
    with pytest.raises(CannotGoOn):
        tell(tmp_path, monkeypatch, lambda scene: scene.play("site.yml"), current)
    figures = json.loads((tmp_path / "report.json").read_text())
    assert [name for name, _seconds in figures["set_up"]] == ["an inventory"]
    (played,) = figures["playbooks"]
    assert (played["book"], played["changed"], played["plays"][0][0]) == ("site.yml", 2, "Prepare the nodes")
    assert "site.yml, 2 changed" in (tmp_path / "report.html").read_text()


def test_a_story_that_is_interrupted_is_shown_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_scene: Scene) -> None:
        raise SystemExit(130)

    with pytest.raises(SystemExit):
        tell(tmp_path, monkeypatch, interrupted)
    assert "It was interrupted in step 2, Two" in (tmp_path / "report.html").read_text()


def test_ctrl_c_while_nodes_are_asked_ends_that_and_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    put_tool(tmp_path, f"echo $$ > {asked}; exec sleep 600")

    def press() -> None:
        until = time.monotonic() + 20
        while not (asked.exists() and asked.read_text().strip()) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def ask(scene: Scene) -> None:
        scene.on_all(lambda node: scene.ssh(node, "uptime"))

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(process.Stopped), process.ended_by_signals():
        tell(tmp_path, monkeypatch, ask)
    assert "It was interrupted in step 2, Two" in (tmp_path / "report.html").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int(asked.read_text()), 0)


@pytest.mark.parametrize(
    ("nodes", "state", "taken"),
    [
        (demonstration.NODES, "runs", True),
        (demonstration.NODES, "ended", False),
        (("plain",), "runs", False),
        (None, "runs", False),
    ],
)
def test_a_cluster_is_taken_that_runs_and_has_the_shape(
    tmp_path: Path, nodes: tuple[str, ...] | None, state: str, taken: bool
) -> None:
    log = tmp_path / "status.log"
    log.write_text("$ cluster status\n" + json.dumps([{"name": "demo", "state": state}]))
    current = session(tmp_path)
    current.run = lambda _command, _name: (0, log)
    if nodes is not None:
        (tmp_path / "made.json").write_text(json.dumps({"nodes": nodes, "before": {}}))
    assert demonstration.stands_already(current, tmp_path) == taken
