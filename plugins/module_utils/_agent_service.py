# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent on its node: look how it stands, and do what `_agent_decide` decides; not healthy, go back.

Every file goes through the ledger, so that an uninstall finds it. `current` and the releases belong to the role that
brings them; only where `current` leads is set here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_decide import (
    HEALTHY,
    Plan,
    Previous,
    Record,
    Seen,
    Setup,
    Step,
    begin,
    decide,
    finish,
    taken_back,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_gate import (
    MOST_CRASHES,
    Look,
    NotWell,
    wait,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_layout import (
    CURRENT,
    RELEASES,
    current_release,
    read_release,
    release_path,
    running_release,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import digest, look, put_link, read
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import FileChange, Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError, UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import bring

JOURNAL_LINES = 25
RESOURCES_OWNER = "node_status"  # these outlive the agent: its own entries go with it


class AgentError(Exception):
    """The agent can't be brought to what is wanted, and nothing was changed."""


class SwitchFailed(Exception):
    """A switch did not lead to a healthy agent; the text has the reason, the journal and what was done about it."""

    def __init__(self, text: str, rolled_back: bool, outcome: Outcome) -> None:
        super().__init__(text)
        self.rolled_back = rolled_back
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Agent:
    """What is wanted."""

    name: str
    unit: str
    unit_content: bytes
    config: str
    config_content: bytes
    config_mode: int
    release: str
    check: tuple[str, ...]  # the command that checks a configuration, "{config}" in place of its path
    health: str  # URL
    timeout: float = 60
    settle: float = 5
    code: str = ""  # hash of its code in that release, where the release is not on the node yet
    resources: tuple[str, ...] = ()  # of the Node, that come with it

    @property
    def setup(self) -> Setup:
        return Setup(self.release, digest(self.config_content), digest(self.unit_content))


@dataclass(slots=True)
class Node:
    """Where it is wanted, and through what it is reached."""

    systemd: Systemd
    ledger: Ledger
    store: RecordStore
    home: str  # of the releases
    ask: Callable[[str], tuple[int, str]]
    proc: str = "/proc"
    take_away: Callable[[], list[str]] = list  # removes the agent; what could not be removed


@dataclass(slots=True)
class Outcome:
    """What was done, or in check mode would be."""

    changed: bool = False
    restarted: bool = False
    downtime: float = 0.0
    release_before: str = ""
    release_after: str = ""
    reasons: tuple[str, ...] = ()
    diff: list[dict[str, str]] = field(default_factory=list)


def see(agent: Agent, node: Node, record: Record | None) -> tuple[Seen, list[FileChange]]:
    """How the agent stands, and what the files' contents would change."""
    state = node.systemd.look(agent.unit)
    if state.masked:
        raise AgentError(
            f"{agent.unit} is masked, so somebody wants it off; unmask it (systemctl unmask {agent.unit}) or take "
            f"the agent away"
        )
    told = Ledger(os.path.dirname(node.ledger.directory), node.ledger.owner, check_mode=True)
    unit = node.systemd.admin_path(agent.unit)
    changes = [
        told.write_file(agent.config, agent.config_content, mode=agent.config_mode, whole=True, follow=False),
        told.write_file(unit, agent.unit_content, mode=0o644, whole=True, follow=False),
    ]
    files = look(agent.config), look(unit)
    active = state.running and state.main_pid not in ("", "0")
    runs = running_release(node.home, node.proc, state.main_pid) if active else ""
    current = current_release(node.home)
    ran = runs or (record.wanted.release if record is not None and record.phase == HEALTHY else "")
    seen = Seen(
        Setup(current, files[0].sha256, files[1].sha256),
        files[0].mode,
        files[1].mode,
        changes[0].changed,
        changes[1].changed,
        active,
        state.enabled,
        active and _code_differs(agent, node, runs),
        "" if _same_code(agent, node, ran, current) else ran,
    )
    return seen, changes


def _same_code(agent: Agent, node: Node, ran: str, current: str) -> bool:
    """Whether `current` can stand for the release that the agent ran from, or nothing is known of that one."""
    if ran == current:
        return True
    was, now = read_release(node.home, ran), read_release(node.home, current)
    code = was.agents.get(agent.name) if was else None
    return code is None or (now is not None and now.agents.get(agent.name) == code)


def _code_differs(agent: Agent, node: Node, runs: str) -> bool:
    if runs == agent.release:
        return False
    was, will = read_release(node.home, runs), read_release(node.home, agent.release)
    wanted = agent.code if will is None else will.agents.get(agent.name)
    return was is None or not wanted or was.agents.get(agent.name) != wanted


def check_config(agent: Agent, node: Node, scratch: str) -> None:
    """Have the wanted release judge the wanted configuration."""
    path = os.path.join(scratch, os.path.basename(agent.config))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(agent.config_content)
        command = [word.replace("{config}", path) for word in agent.check]
        code, out, err = node.systemd.run(["env", "--chdir", release_path(node.home, agent.release), *command])
    finally:
        os.unlink(path)
    if code != 0:
        said = (err.strip() or out.strip()).replace(path, agent.config)
        raise AgentError(
            f"Release {agent.release} refuses the configuration that {agent.config} would get, so nothing was "
            f"changed (exit {code}):\n{said}"
        )


def bring_up(agent: Agent, node: Node, scratch: str) -> Outcome:
    """Bring the agent to what is wanted and healthy; in the ledger's check mode only tell.

    AgentError: nothing was changed. SwitchFailed: something was, and the text says what stands now.
    """
    record = node.store.read()
    seen, changes = see(agent, node, record)
    plan = decide(seen, agent.setup, record)
    outcome = Outcome(plan.changes, plan.starts, 0.0, seen.setup.release, agent.release, plan.reasons)
    outcome.diff = _diff(agent, seen, plan, changes)
    installed = read_release(node.home, agent.release)
    if not node.ledger.check_mode:
        if installed is None:
            where = release_path(node.home, agent.release)
            raise AgentError(f"Release {agent.release} is not (or not wholly) at {where}; bring it to the node first")
        if agent.name not in installed.agents:
            raise AgentError(f"Release {agent.release} has no agent {agent.name}; it has {sorted(installed.agents)}")
    if plan.switches and installed is not None:
        check_config(agent, node, scratch)
    if not node.ledger.check_mode:
        note_resources(node, agent.resources)
        _Switch(agent, node, outcome).go(seen, record, plan)
    return outcome


def note_resources(node: Node, names: tuple[str, ...]) -> None:
    """Remember what the agent will have the kubelet write into the Node, where it stays when the agent has gone."""
    ledger = Ledger(os.path.dirname(node.ledger.directory), RESOURCES_OWNER)
    for name in names:
        ledger.note("resource", name, None, True)


def noted_resources(state_dir: str) -> list[str]:
    """All names that were ever noted here."""
    return sorted(entry.name for entry in Ledger(state_dir).entries() if entry.kind == "resource")


class _Switch:
    """The deeds."""

    def __init__(self, agent: Agent, node: Node, outcome: Outcome) -> None:
        self.agent = agent
        self.node = node
        self.outcome = outcome
        self.stopped_at: float | None = None  # since when an agent that ran does not
        self.record: Record | None = None  # of the switch that is under way

    def go(self, seen: Seen, record: Record | None, plan: Plan) -> None:
        try:
            for step in plan.steps:
                self._take(step, seen, record, plan)
        except (NotWell, UnitError, LedgerError, OSError) as problem:
            raise self._failed(problem) from problem

    def _take(self, step: Step, seen: Seen, record: Record | None, plan: Plan) -> None:
        agent, node = self.agent, self.node
        if step is Step.RECORD:
            self._keep(seen, begin(seen, agent.setup, record, plan))
        elif step is Step.CONFIG:
            self._put(agent.config, agent.config_content, agent.config_mode)
        elif step is Step.UNIT:
            self._put(node.systemd.admin_path(agent.unit), agent.unit_content, 0o644)
        elif step is Step.LINK:
            self._link(agent.release)
        elif step is Step.ENABLE:
            node.systemd.daemon_reload()
            bring(node.systemd, node.ledger, agent.unit, UnitWish(enabled=True))
        elif step in (Step.START, Step.RESTART):
            self._start(step is Step.RESTART)
        elif step is Step.GATE:
            self._gate(plan.starts)
        elif step is Step.CONFIRM and self.record is not None:
            node.store.save(finish(self.record))

    def _keep(self, seen: Seen, record: Record) -> None:
        """The copies that the way back needs, then the record that speaks of them."""
        if record.previous == seen.as_previous():
            self.node.store.keep("config", read(self.agent.config))
            self.node.store.keep("unit", read(self.node.systemd.admin_path(self.agent.unit)))
        self.node.store.save(record)
        self.record = record

    def _put(self, path: str, content: bytes, mode: int) -> None:
        self.node.ledger.write_file(path, content, mode=mode, whole=True, follow=False)

    def _link(self, release: str) -> None:
        put_link(os.path.join(self.node.home, CURRENT), os.path.join(RELEASES, release))

    def _start(self, ran: bool) -> None:
        systemd, unit = self.node.systemd, self.agent.unit
        systemd.daemon_reload()
        now = systemd.look(unit).record()
        self.node.ledger.note("unit", unit, now, {**now, "active": True})
        if ran and self.stopped_at is None:
            self.stopped_at = systemd.clock()
        systemd.order_restart(unit)

    def _gate(self, started: bool) -> None:
        """One that runs on has to be well now; one that was started, or fell again and again, to stay so too."""
        systemd = self.node.systemd
        lasts = started or systemd.look(self.agent.unit).crashes >= MOST_CRASHES
        settle = self.agent.settle if lasts else 0

        def look_once() -> Look:
            state = systemd.look(self.agent.unit)
            answers = state.active == "active" and not state.job
            health, said = self.node.ask(self.agent.health) if answers else (0, "")
            return Look(
                systemd.clock(), state.active, state.sub, bool(state.job), state.main_pid, state.crashes,
                state.result, health, said,
            )  # fmt: skip

        well_at = wait(look_once, systemd.sleep, self.agent.timeout, settle)
        if self.stopped_at is not None:
            self.outcome.downtime = round(well_at - self.stopped_at, 2)

    # The way back

    def _failed(self, problem: Exception) -> SwitchFailed:
        """Go back if this was a switch; the error to raise."""
        agent = self.agent
        what = f"is not healthy: {problem}" if isinstance(problem, NotWell) else f"was not changed: {problem}"
        journal = self.node.systemd.journal(agent.unit, JOURNAL_LINES)
        if self.record is None:
            return SwitchFailed(f"{agent.unit} {what}\nIts journal:\n{journal}", False, self.outcome)
        rolled_back, done = self._go_back(self.record)
        text = (
            f"{agent.unit} with release {agent.release} {what}\n{done}\n"
            f"Its journal before it was taken back:\n{journal}"
        )
        return SwitchFailed(text, rolled_back, self.outcome)

    def _go_back(self, record: Record) -> tuple[bool, str]:
        """Whether the former state is back, and a sentence for the user."""
        previous = record.previous
        try:
            if previous is None or not previous.setup.unit_sha256:
                return self._undo_installation(previous)
            self._put_back(previous)
            if not previous.active:
                self.node.systemd.stop(self.agent.unit, self.agent.timeout)
                done = "it was not running before, so it was stopped"
            else:
                if record.restart:
                    self._start(ran=True)
                self._gate(record.restart)
                done = "it is healthy again"
        except (NotWell, UnitError, LedgerError, OSError, ValueError) as problem:
            return False, f"Going back to what stood before failed too: {problem}. The next run tries all again."
        after = taken_back(record)
        if after is not None:
            self.node.store.save(after)
        release = previous.setup.release
        return True, f"It was taken back to release {release}, its former configuration and unit, and {done}."

    def _undo_installation(self, previous: Previous | None) -> tuple[bool, str]:
        if previous is not None and previous.setup.release:
            self._link(previous.setup.release)
        problems = self.node.take_away()
        if problems:
            return False, "Nothing stood before, but not all of it could be removed: " + "; ".join(problems)
        return True, "There was no former installation to go back to, so it was stopped and removed."

    def _put_back(self, previous: Previous) -> None:
        node, setup = self.node, previous.setup
        unit = node.systemd.admin_path(self.agent.unit)
        if setup.config_sha256:
            self._put(self.agent.config, node.store.kept("config", setup.config_sha256), previous.config_mode)
        else:
            node.ledger.remove_file(self.agent.config)
        self._put(unit, node.store.kept("unit", setup.unit_sha256), previous.unit_mode)
        if setup.release:
            self._link(setup.release)
        node.systemd.daemon_reload()
        bring(node.systemd, node.ledger, self.agent.unit, UnitWish(enabled=previous.enabled))


def _diff(agent: Agent, seen: Seen, plan: Plan, changes: list[FileChange]) -> list[dict[str, str]]:
    """What changes: files, where `current` leads, the unit's state."""
    diff = [change.diff() for change in changes if change.changed]
    if Step.LINK in plan.steps:
        before = f"release: {seen.setup.release}\n" if seen.setup.release else ""
        diff.append(_lines(f"{CURRENT} release", before, f"release: {agent.release}\n"))
    before = after = ""
    if Step.ENABLE in plan.steps:
        before, after = "enabled: false\n", "enabled: true\n"
    if Step.START in plan.steps:
        before, after = before + "active: false\n", after + "active: true\n"
    if Step.RESTART in plan.steps:
        after += "restarted: " + ", ".join(plan.reasons) + "\n"
    if before or after:
        diff.append(_lines(agent.unit, before, after))
    return diff


def _lines(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}
