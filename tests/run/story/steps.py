# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A story is a list of steps; here is how one is told. What a step is about, only its functions know.

Each step does something, then waits on a condition until a limit. A condition that can't be asked right now (the API
server restarts) is one that does not hold yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .page import Told
from .plot import clock

S = TypeVar("S")
LOOK_SECONDS = 2.0


class StepFailed(Exception):
    """What was expected and what was seen instead."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}; seen: {seen}")
        self.expected = expected
        self.seen = seen


class Trouble(Exception):
    """Something that a step wanted to do or know could not be done or known; the text says what.

    `status` is what a program or a server said, 0 where it said nothing.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Look:
    """What a condition sees."""

    ok: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Wait(Generic[S]):
    """A condition with a limit in seconds."""

    expected: str
    look: Callable[[S], Look]
    limit: float


@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """One step. `needs` says why it is to be left out, or nothing; `tells` are lines worth showing at its end."""

    name: str  # a word for the command line
    title: str
    line: str
    act: Callable[[S], None] | None = None
    before: Wait[S] | None = None
    until: Wait[S] | None = None
    tells: Callable[[S], Sequence[str]] | None = None
    needs: Callable[[S], str] | None = None


class Teller(Protocol):
    """What the telling needs of the world."""

    def now(self) -> float:
        """Seconds since the beginning."""

    def pause(self, seconds: float) -> None:
        """Let the world go on."""

    def say(self, text: str) -> None:
        """A line for who watches."""


def tell(steps: Sequence[Step[S]], scene: S, teller: Teller, told: list[Told]) -> None:
    """Tell a story; `told` gets each step as it went, also the one in which it ended with an exception."""
    for number, step in enumerate(steps, 1):
        begin = teller.now()
        label = str(number)
        teller.say(f"\n=== {number} of {len(steps)}: {step.title}\n    {step.line}")
        outcome: str = "stopped"
        seen: tuple[str, ...] = ()
        try:
            reason = step.needs(scene) if step.needs else ""
            if not reason:
                seen = tuple(_go(step, scene, teller, begin))
            outcome = "left out" if reason else "done"
            seen = (reason,) if reason else seen
        except (StepFailed, Trouble) as problem:
            failed = problem if isinstance(problem, StepFailed) else StepFailed("the step itself to work", str(problem))
            outcome, seen = "failed", (f"expected: {failed.expected}", f"seen: {failed.seen}")
            raise failed from None
        finally:
            end = teller.now()
            told.append(Told(label, step.title, step.line, begin, end, outcome, seen))
            for line in seen:
                teller.say("\n".join(f"      {part}" for part in line.splitlines()))
            teller.say(f"    {outcome}, {clock(end - begin)} (all so far {clock(end)})")


def _go(step: Step[S], scene: S, teller: Teller, begin: float) -> Sequence[str]:
    if step.before is not None:
        await_(step.before, scene, teller, begin)
    if step.act is not None:
        step.act(scene)
    last = await_(step.until, scene, teller, begin) if step.until is not None else ""
    lines = step.tells(scene) if step.tells is not None else ()
    return [*([last] if last else []), *lines]


def await_(wait: Wait[S], scene: S, teller: Teller, begin: float) -> str:
    """Wait until a condition holds; what was seen then. Whatever changes on the way is said."""
    until = teller.now() + wait.limit
    said = ""
    while True:
        try:
            look = wait.look(scene)
        except Trouble as trouble:
            look = Look(False, str(trouble))
        if look.ok:
            return look.seen
        if look.seen != said:
            teller.say(f"      {clock(teller.now() - begin)}  {look.seen}")
            said = look.seen
        if teller.now() >= until:
            raise StepFailed(f"{wait.expected}, within {clock(wait.limit)}", look.seen)
        teller.pause(LOOK_SECONDS)
