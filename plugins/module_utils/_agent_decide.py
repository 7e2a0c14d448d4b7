# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From how an agent stands to how it should: what stands, what is wanted and what is on record go in, steps come out.

An agent runs from three things: a release (code), a configuration and a unit; together they are its `Setup`. Going
from one setup to another is a switch. It is on record before the first change, so that a run killed anywhere is
finished, or taken back, by the next. What a process was started with can't be seen later, except its code (the folder
it runs in). So an unfinished switch that needs a restart restarts, whatever the disk says by now; and outside of a
switch a process runs what the last finished switch put on disk, for systemd starts it from there.

No file, process or clock is looked at here: that is `_agent_service`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

SWITCHING, HEALTHY = "switching", "healthy"


class Step(enum.Enum):
    """What can be done, in the order in which it is done."""

    RECORD = "record"  # the intent, and a copy of what stands
    CONFIG = "config"
    UNIT = "unit"
    LINK = "link"  # `current` to the wanted release
    ENABLE = "enable"
    START = "start"
    RESTART = "restart"
    GATE = "gate"  # wait until it is healthy
    CONFIRM = "confirm"  # the switch is over


_CHANGES = {Step.CONFIG, Step.UNIT, Step.LINK, Step.ENABLE, Step.START, Step.RESTART}


@dataclass(frozen=True, slots=True)
class Setup:
    """What an agent runs from; an empty value is something that is not there."""

    release: str = ""
    config_sha256: str = ""
    unit_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Previous:
    """How it stood before a switch, as far as the way back needs it."""

    setup: Setup
    active: bool = False
    enabled: bool = False
    config_mode: int = 0
    unit_mode: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of the last switch."""

    phase: str  # SWITCHING until the agent was healthy in the wanted setup
    wanted: Setup
    previous: Previous | None = None
    restart: bool = True  # an unfinished switch needs a restart


@dataclass(frozen=True, slots=True)
class Seen:
    """How the agent stands now."""

    setup: Setup = Setup()
    config_mode: int = 0
    unit_mode: int = 0
    config_differs: bool = True  # from the wanted one, in content or mode
    unit_differs: bool = True
    active: bool = False  # there is a process
    enabled: bool = False
    code_differs: bool = True  # the process runs other code than the wanted release has for this agent
    own_release: str = ""  # that it ran from so far, where `current` leads to other code by now, for another agent

    def as_previous(self) -> Previous:
        """What the way back needs of it."""
        setup = replace(self.setup, release=self.own_release or self.setup.release)
        return Previous(setup, self.active, self.enabled, self.config_mode, self.unit_mode)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and why the process has to be started."""

    steps: tuple[Step, ...]
    reasons: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Something on the node changes."""
        return bool(_CHANGES & set(self.steps))

    @property
    def switches(self) -> bool:
        """It goes on record and can be taken back."""
        return Step.RECORD in self.steps

    @property
    def starts(self) -> bool:
        """A new process comes."""
        return bool({Step.START, Step.RESTART} & set(self.steps))


def decide(seen: Seen, wanted: Setup, record: Record | None) -> Plan:
    """The steps from here to the wanted setup, running and healthy."""
    settled = record is not None and record.phase == HEALTHY and record.wanted == wanted
    reasons = _reasons(seen, wanted, record)
    relink = seen.setup.release != wanted.release
    needed = {
        Step.CONFIG: seen.config_differs,
        Step.UNIT: seen.unit_differs,
        Step.LINK: relink,
        Step.ENABLE: not seen.enabled,
        Step.START: not seen.active,
        Step.RESTART: seen.active and bool(reasons),
        Step.GATE: True,
    }
    steps = [step for step in Step if needed.get(step)]
    if not settled or seen.config_differs or seen.unit_differs or relink or (seen.active and reasons):
        steps = [Step.RECORD, *steps, Step.CONFIRM]
    return Plan(tuple(steps), reasons)


def begin(seen: Seen, wanted: Setup, record: Record | None, plan: Plan) -> Record:
    """The record of a switch that begins. The way back from an unfinished one leads to before its beginning."""
    if record is not None and record.phase == SWITCHING:
        return Record(SWITCHING, wanted, record.previous, record.restart or plan.starts)
    return Record(SWITCHING, wanted, seen.as_previous(), plan.starts)


def finish(record: Record) -> Record:
    """The record of a switch that is over: the agent was healthy."""
    return Record(HEALTHY, record.wanted, record.previous, False)


def taken_back(record: Record) -> Record | None:
    """The record after the way back; none where there was nothing before."""
    if record.previous is None or not record.previous.setup.unit_sha256:
        return None
    return Record(HEALTHY, record.previous.setup, None, False)


def _reasons(seen: Seen, wanted: Setup, record: Record | None) -> tuple[str, ...]:
    if not seen.active:
        return ("it does not run",)
    reasons = []
    if record is None:
        reasons.append("nothing is on record of what it was started with")
    elif record.phase == SWITCHING and record.restart:
        reasons.append("an earlier run was interrupted")
    known = record.wanted if record is not None else wanted
    if seen.code_differs:
        reasons.append("its code changes")
    if seen.config_differs or known.config_sha256 != wanted.config_sha256:
        reasons.append("its configuration changes")
    if seen.unit_differs or known.unit_sha256 != wanted.unit_sha256:
        reasons.append("its unit changes")
    return tuple(reasons)
