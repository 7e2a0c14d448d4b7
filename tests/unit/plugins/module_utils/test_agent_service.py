# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent's switches on the double of a node: healthy, ill, and killed at every call that changes a file."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_absent import take_away
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_service import (
    Agent,
    AgentError,
    SwitchFailed,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.agent_node import (
    UNIT,
    AgentNode,
    release_double,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import killed_at

OLD, NEW, SAME = "1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb", "3-cccccccccccc"


def _node(root: Path) -> AgentNode:
    node = AgentNode(root)
    node.bring(OLD)
    node.bring(NEW)
    node.bring(SAME, code=f"code of {NEW}")
    return node


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are killed here, machines are not: the calls count, the disk need not turn."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def node(tmp_path: Path) -> AgentNode:
    return _node(tmp_path)


@pytest.fixture
def installed(node: AgentNode) -> AgentNode:
    node.run(node.agent(OLD))
    return node


def _record(node: AgentNode) -> dict[str, object]:
    document: dict[str, object] = json.loads((node.state_dir / "agents/device_plugin.json").read_text())
    return document


def _inventory(node: AgentNode) -> dict[str, bytes | str]:
    """All files and links but the process table."""
    found: dict[str, bytes | str] = {}
    for path in sorted(node.root.rglob("*")):
        if "proc" not in path.parts and (path.is_symlink() or not path.is_dir()):
            found[str(path)] = str(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def test_a_first_installation_runs_and_a_second_run_changes_nothing(node: AgentNode) -> None:
    done = node.run(node.agent(OLD))
    assert done.changed
    assert done.restarted
    assert node.runs(node.agent(OLD))
    assert node.units[UNIT].enablement == "enabled"
    assert (node.config.stat().st_mode & 0o777, node.unit.stat().st_mode & 0o777) == (0o600, 0o644)
    before = _inventory(node)
    again = node.run(node.agent(OLD))
    assert (again.changed, again.restarted, again.diff, len(node.starts)) == (False, False, [], 1)
    assert _inventory(node) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda node: node.agent(NEW), "its code changes"),
        (lambda node: node.agent(OLD, config="devices: 5\n"), "its configuration changes"),
        (lambda node: node.agent(OLD, unit="[Service]\nX=1\n"), "its unit changes"),
    ],
)
def test_a_switch_restarts_for_a_reason(
    change: Callable[[AgentNode], Agent], reason: str, installed: AgentNode
) -> None:
    agent = change(installed)
    told = installed.run(agent, check_mode=True)
    done = installed.run(agent)
    assert done.reasons == (reason,)
    assert (done.changed, done.restarted, done.downtime) == (True, True, 0.0)  # the double needs no time to start
    assert (told.changed, told.restarted, told.diff) == (done.changed, done.restarted, done.diff)
    assert installed.runs(agent)
    assert not installed.run(agent).changed


def test_check_mode_changes_nothing(node: AgentNode) -> None:
    before = _inventory(node)
    told = node.run(node.agent(OLD), check_mode=True)
    assert told.changed
    assert _inventory(node) == before
    assert node.changes() == []
    assert [entry["after_header"] for entry in told.diff] == [str(node.config), str(node.unit), UNIT]


def test_check_mode_works_without_the_release(installed: AgentNode) -> None:
    told = installed.run(installed.agent("4-dddddddddddd"), check_mode=True)
    assert told.restarted
    assert "release: 4-dddddddddddd\n" in [entry["after"] for entry in told.diff]


def test_a_release_with_the_same_code_restarts_nothing(installed: AgentNode) -> None:
    installed.run(installed.agent(NEW))
    starts = len(installed.starts)
    done = installed.run(installed.agent(SAME))
    assert (done.changed, done.restarted, len(installed.starts)) == (True, False, starts)
    assert installed.current() == SAME
    assert not installed.run(installed.agent(SAME)).changed


def test_a_bad_configuration_changes_nothing(installed: AgentNode) -> None:
    before = _inventory(installed)
    with pytest.raises(AgentError, match="nothing was changed") as error:
        installed.run(installed.agent(NEW, config="bad"))
    assert f"{installed.config}: devices is wrong" in str(error.value)
    with pytest.raises(AgentError):
        installed.run(installed.agent(NEW, config="bad"), check_mode=True)
    assert _inventory(installed) == before
    assert installed.runs(installed.agent(OLD))


@pytest.mark.parametrize(
    ("release", "words"), [("4-dddddddddddd", "not .or not wholly. at"), (NEW, "has no agent device_plugin")]
)
def test_a_release_that_can_not_serve(release: str, words: str, installed: AgentNode) -> None:
    manifest = installed.home / "releases" / NEW / "RELEASE.json"
    manifest.write_text(json.dumps(release_double(NEW, {"other": "x"}).to_json()))
    with pytest.raises(AgentError, match=words):
        installed.run(installed.agent(release))


def test_a_masked_agent_is_left(installed: AgentNode) -> None:
    installed.unit.unlink()
    installed.unit.symlink_to("/dev/null")
    with pytest.raises(AgentError, match="is masked, so somebody wants it off"):
        installed.run(installed.agent(OLD))


@pytest.mark.parametrize("illness", ["crashing", "mute"])
def test_an_ill_release_is_taken_back(illness: str, installed: AgentNode) -> None:
    getattr(installed, illness).add(NEW)
    with pytest.raises(SwitchFailed) as failure:
        installed.run(installed.agent(NEW, config="devices: 5\n", unit="[Service]\nX=1\n"))
    assert failure.value.rolled_back
    assert f"taken back to release {OLD}" in str(failure.value)
    assert f"last words of {UNIT}" in str(failure.value)
    assert ("its process ended 3 times" if illness == "crashing" else "503: not watched") in str(failure.value)
    assert installed.runs(installed.agent(OLD))
    assert (installed.current(), installed.config.read_text()) == (OLD, "devices: 10\n")
    assert _record(installed)["phase"] == "healthy"
    assert not installed.run(installed.agent(OLD)).changed


def _other_agent_moves(node: AgentNode, release: str) -> None:
    """Another agent's switch is over; this one runs on in what it was started in."""
    link = node.home / "current"
    link.unlink()
    link.symlink_to(f"releases/{release}")


@pytest.mark.parametrize("runs", [True, False])
def test_the_way_back_of_the_second_agent_leads_to_what_it_ran_from(runs: bool, installed: AgentNode) -> None:
    _other_agent_moves(installed, NEW)
    if not runs:
        installed._stop(UNIT, [])
    installed.mute.add(NEW)
    with pytest.raises(SwitchFailed, match=f"taken back to release {OLD}") as failure:
        installed.run(installed.agent(NEW, config="devices: 5\n"))
    assert failure.value.rolled_back
    assert installed.current() == OLD
    assert installed.runs(installed.agent(OLD)) == runs
    installed.crash()
    assert installed.runs(installed.agent(OLD)) == runs


def test_the_way_back_stays_in_current_where_that_has_the_agents_code(installed: AgentNode) -> None:
    """Others may have code there that they have not where this one was started."""
    installed.run(installed.agent(NEW))
    _other_agent_moves(installed, SAME)
    installed.mute.add(OLD)
    with pytest.raises(SwitchFailed, match=f"taken back to release {SAME}"):
        installed.run(installed.agent(OLD))
    assert installed.current() == SAME
    assert installed.runs(installed.agent(NEW))


def test_a_first_installation_that_is_ill_goes_again(node: AgentNode) -> None:
    before = _inventory(node)
    node.mute.add(OLD)
    with pytest.raises(SwitchFailed, match="no former installation") as failure:
        node.run(node.agent(OLD))
    assert failure.value.rolled_back
    assert node.process is None
    assert _inventory(node) == before


def test_a_way_back_that_fails_says_both_and_is_tried_again(installed: AgentNode) -> None:
    installed.mute |= {OLD, NEW}
    with pytest.raises(SwitchFailed, match="Going back to what stood before failed too") as failure:
        installed.run(installed.agent(NEW))
    assert not failure.value.rolled_back
    assert _record(installed)["phase"] == "switching"
    installed.mute.clear()
    done = installed.run(installed.agent(NEW))
    assert done.reasons[0] == "an earlier run was interrupted"
    assert installed.runs(installed.agent(NEW))


def test_an_ill_agent_without_a_switch_fails_and_stays(installed: AgentNode) -> None:
    installed.mute.add(OLD)
    with pytest.raises(SwitchFailed, match="is not healthy") as failure:
        installed.run(installed.agent(OLD))
    assert not failure.value.rolled_back
    assert installed.runs(installed.agent(OLD))


def test_an_agent_that_fell_in_former_times_is_well_when_it_stays_so(installed: AgentNode) -> None:
    installed.crashes = 3
    before = installed.clock()
    done = installed.run(installed.agent(OLD))
    assert (done.changed, done.restarted) == (False, False)
    assert installed.clock() - before >= 2


def test_an_agent_that_somebody_stopped_starts_again(installed: AgentNode) -> None:
    installed._stop(UNIT, [])
    done = installed.run(installed.agent(OLD))
    assert (done.reasons, done.downtime) == (("it does not run",), 0.0)
    assert installed.runs(installed.agent(OLD))


def test_a_file_that_somebody_edited_is_mended_and_read(installed: AgentNode) -> None:
    installed.config.write_text("devices: 99\n")
    installed.crash()  # it runs what was edited
    assert installed.run(installed.agent(OLD)).restarted
    assert installed.runs(installed.agent(OLD))


def test_a_disk_that_is_full_before_the_switch_says_so(installed: AgentNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", "record")

    node = installed.node()
    monkeypatch.setattr(type(node.store), "save", full)
    with pytest.raises(SwitchFailed, match="was not changed: .*No space left") as failure:
        installed.run(installed.agent(NEW))
    assert not failure.value.rolled_back
    assert installed.runs(installed.agent(OLD))
    assert installed.current() == OLD


def _kill_points(make: Callable[[], AgentNode], agent: Callable[[AgentNode], Agent]) -> int:
    with killed_at(0) as calls, contextlib.suppress(SwitchFailed):
        node = make()
        del calls[:]
        node.run(agent(node))
    return len(calls)


def _killed(node: AgentNode, agent: Agent, number: int) -> None:
    with killed_at(number), contextlib.suppress(SwitchFailed, AgentError):
        node.run(agent)


def test_a_switch_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    def make(name: str) -> AgentNode:
        node = _node(tmp_path / name)
        node.run(node.agent(OLD))
        return node

    def wanted(node: AgentNode) -> Agent:
        return node.agent(NEW, config="devices: 5\n", unit="[Service]\nX=1\n")

    points = _kill_points(lambda: make("whole"), wanted)
    assert points > 20
    for number in range(1, points + 1):
        node = make(str(number))
        _killed(node, wanted(node), number)
        node.run(wanted(node))
        assert node.runs(wanted(node)), number
        assert node.current() == NEW
        assert not node.run(wanted(node)).changed, number
        removal = take_away(UNIT, node.node().systemd, node.node().ledger, node.node().store, [], 10)
        assert removal.report.problems == []
        assert not node.unit.exists()
        assert not node.config.exists()
        assert not node.state_dir.exists(), number


def test_a_switch_killed_anywhere_still_knows_the_way_back(tmp_path: Path) -> None:
    def make(name: str) -> AgentNode:
        node = _node(tmp_path / name)
        node.run(node.agent(OLD))
        return node

    def wanted(node: AgentNode) -> Agent:
        return node.agent(NEW, config="devices: 5\n", unit="[Service]\nX=1\n")

    whole = make("over")
    whole.run(wanted(whole))
    over = _record(whole)
    for number in range(1, _kill_points(lambda: make("whole"), wanted) + 1):
        node = make(str(number))
        _killed(node, wanted(node), number)
        if _record(node) == over:
            continue
        node.mute.add(NEW)
        with pytest.raises(SwitchFailed) as failure:
            node.run(wanted(node))
        assert failure.value.rolled_back, number
        assert node.runs(node.agent(OLD)), number
        assert node.current() == OLD


def test_a_way_back_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    def make(name: str) -> AgentNode:
        node = _node(tmp_path / name)
        node.run(node.agent(OLD))
        node.mute.add(NEW)
        return node

    def wanted(node: AgentNode) -> Agent:
        return node.agent(NEW, config="devices: 5\n")

    for number in range(1, _kill_points(lambda: make("whole"), wanted) + 1):
        node = make(str(number))
        _killed(node, wanted(node), number)
        node.run(node.agent(OLD))
        assert node.runs(node.agent(OLD)), number
        assert not node.run(node.agent(OLD)).changed, number


EVENTS = st.one_of(
    st.tuples(
        st.just("run"),
        st.sampled_from([OLD, NEW, SAME]),
        st.sampled_from(["devices: 10\n", "devices: 5\n", "bad"]),
        st.sampled_from(["[Service]\n", "[Service]\nX=1\n"]),
        st.integers(0, 60),
    ),
    st.tuples(st.sampled_from(["crash", "reboot", "stop", "edit", "disable"])),
    st.tuples(st.sampled_from(["ill", "well"]), st.sampled_from([OLD, NEW, SAME])),
)


@given(st.lists(EVENTS, max_size=8))
def test_from_anywhere_one_whole_run_is_enough(events: list[tuple[str, ...]]) -> None:
    """Runs that end in any way, killed ones too, and whatever a node lives through, in any order."""
    with tempfile.TemporaryDirectory() as folder:
        node = _node(Path(folder))
        for event in events:
            _happen(node, event)
        node.mute.clear()
        agent = node.agent(NEW, config="devices: 7\n")
        node.run(agent)
        assert node.runs(agent)
        assert node.current() == NEW
        assert _record(node)["phase"] == "healthy"
        again = node.run(agent)
        assert not again.changed
        assert not again.restarted


def _happen(node: AgentNode, event: tuple[str, ...]) -> None:
    if event[0] == "run":
        release, config, unit, number = event[1:]
        _killed(node, node.agent(release, config, unit), int(number))
    elif event[0] == "ill":
        node.mute.add(event[1])
    elif event[0] == "well":
        node.mute.discard(event[1])
    elif event[0] == "edit":
        if node.config.exists():
            node.config.write_text("devices: 99\n")
    elif event[0] == "stop":
        node._stop(UNIT, [])
    elif event[0] == "disable":
        node._disable(UNIT, [])
    else:
        getattr(node, event[0])()
