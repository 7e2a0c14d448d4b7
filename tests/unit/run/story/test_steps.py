# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How a story is told: with a clock of its own, so that no test waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.colocation.kubernetes.tests.run.story.page import Told
from ansible_collections.colocation.kubernetes.tests.run.story.steps import (
    Look,
    Step,
    StepFailed,
    Trouble,
    Wait,
    tell,
)


class World:
    """Scene and teller: time passes when somebody waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self.said: list[str] = []
        self.done: list[str] = []

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def say(self, text: str) -> None:
        self.said.append(text)


def after(seconds: float) -> Callable[[World], Look]:
    return lambda world: Look(world.time >= seconds, f"{world.time // 10 * 10:.0f} s have passed")


def told(world: World, *steps: Step[World]) -> list[Told]:
    outcome: list[Told] = []
    tell(steps, world, world, outcome)
    return outcome


def test_a_step_waits_acts_waits_and_tells() -> None:
    world = World()
    step = Step(
        "one", "One", "The first.", before=Wait("ten", after(10), 30), act=lambda w: w.done.append(f"at {w.time}"),
        until=Wait("twenty", after(20), 30), tells=lambda _w: ["a line"],
    )  # fmt: skip
    (one,) = told(world, step)
    assert world.done == ["at 10.0"]
    assert (one.outcome, one.begin, one.end, one.seen) == ("done", 0.0, 20.0, ("20 s have passed", "a line"))
    assert "      0:10  10 s have passed" in world.said


def test_what_does_not_change_is_said_once() -> None:
    world = World()
    told(world, Step("one", "One", "", until=Wait("it", after(9), 30)))
    assert sum("0 s have passed" in line for line in world.said) == 2  # while waiting, and as what was seen


def test_a_limit_ends_the_story_with_what_was_expected_and_seen() -> None:
    world, outcome = World(), list[Told]()
    steps: list[Step[World]] = [Step("one", "One", "", until=Wait("the end", after(99), 30)), Step("two", "Two", "")]
    with pytest.raises(StepFailed) as failed:
        tell(steps, world, world, outcome)
    assert (failed.value.expected, failed.value.seen) == ("the end, within 0:30", "30 s have passed")
    assert [(one.label, one.outcome) for one in outcome] == [("1", "failed")]
    assert outcome[0].seen == ("expected: the end, within 0:30", "seen: 30 s have passed")


def test_a_condition_that_can_not_be_asked_does_not_hold_yet() -> None:
    def look(world: World) -> Look:
        if world.time < 10:
            raise Trouble("the API does not answer")
        return Look(True, "well")

    assert told(World(), Step("one", "One", "", until=Wait("it", look, 30)))[0].outcome == "done"


def test_a_deed_that_fails_is_told_with_its_reason() -> None:
    def deed(_world: World) -> None:
        raise Trouble("the playbook ended with 2")

    with pytest.raises(StepFailed, match="the playbook ended with 2"):
        told(World(), Step("one", "One", "", act=deed))


def test_a_step_that_lacks_something_is_left_out_and_the_story_goes_on() -> None:
    world = World()
    steps: tuple[Step[World], ...] = (
        Step("gpu", "GPU", "", needs=lambda _w: "no GPU", act=lambda w: w.done.append("gpu")),
        Step("two", "Two", "", act=lambda w: w.done.append("two")),
    )
    assert [(one.outcome, one.seen) for one in told(world, *steps)] == [("left out", ("no GPU",)), ("done", ())]
    assert world.done == ["two"]


def test_who_interrupts_finds_the_step_in_the_report() -> None:
    def interrupted(_world: World) -> None:
        raise SystemExit(130)

    outcome: list[Told] = []
    with pytest.raises(SystemExit):
        tell([Step("one", "One", "", act=interrupted)], World(), World(), outcome)
    assert [one.outcome for one in outcome] == ["stopped"]
