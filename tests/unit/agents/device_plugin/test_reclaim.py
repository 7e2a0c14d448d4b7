# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Taking memory back: when, from whom, how much; and what one round may never do."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.reclaim import (
    LEAST_WAIT,
    MOST_WAIT,
    Candidate,
    Decision,
    Going,
    Kind,
    Level,
    Memory,
    Rules,
    Rung,
    Sight,
    decide,
    evicted,
    failed,
    refused,
    wait,
)

MIB = 1 << 20
BLOCK = 512 * MIB
RULES = Rules(
    soft=1000 * MIB,
    hard=600 * MIB,
    rush=1000 * MIB,
    check=13,
    cooldown=30,
    evict_over=True,
    unmanaged=True,
    static=False,
    budgets_at_hard=False,
    enforced=True,
)
FRESH = Memory(checked=100.0)  # the next check is at 113


def pod(uid: str, use: int = 400, **more: object) -> Candidate:
    values: dict[str, object] = {"priority": 0, "created": 0.0, "blocks": 1, "allowance": BLOCK, "cache": 0}
    return Candidate(uid=uid, use=use * MIB, **{**values, **more})  # type: ignore[arg-type]


def sight(*pods: Candidate, now: float = 101.0, available: int = 5000, **more: object) -> Sight:
    blocks = sum(p.blocks for p in pods)
    values: dict[str, object] = {"falling": 0.0, "stalled": False, "fits": blocks, "allocated": blocks, "free": 5000}
    values = {**values, **more}
    values["free"] = int(values["free"]) * MIB  # type: ignore[call-overload]
    return Sight(now=now, available=available * MIB, candidates=pods, **values)  # type: ignore[arg-type]


def done(decision: Decision) -> list[tuple[str, str]]:
    return [(action.rung.value, action.uid) for action in decision.actions]


@pytest.mark.parametrize(
    ("seen", "level", "actions"),
    [
        (sight(pod("a")), Level.CALM, []),
        # below the soft watermark it takes a stall, or the check
        (sight(pod("a"), available=900), Level.CALM, []),
        (sight(pod("a"), available=900, stalled=True), Level.SOFT, [("evict", "a")]),
        (sight(pod("a"), available=900, now=113), Level.SOFT, [("evict", "a")]),
        # below the hard one nothing is waited for
        (sight(pod("a"), available=599), Level.HARD, [("kill", "a")]),
        (sight(pod("a"), available=1500, falling=1900.0 * MIB), Level.HARD, [("kill", "a")]),
        (sight(pod("a"), available=1500, falling=1700.0 * MIB), Level.CALM, []),
        # a stall with little available: page cache, as much as is missing to have the soft watermark free
        (sight(pod("a", cache=700 * MIB), available=1999, stalled=True), Level.PRESSED, []),
        (sight(pod("a", cache=700 * MIB), available=1999, stalled=True, free=400), Level.PRESSED, [("squeeze", "a")]),
        # with much of it somebody stalls at his own limit, and little free is as it should be
        (sight(pod("a", cache=700 * MIB), available=2000, stalled=True, free=400), Level.CALM, []),
        # evictions come first, for dropping cache may take long
        (
            sight(pod("a"), pod("b", cache=MIB), available=900, stalled=True, free=400),
            Level.SOFT,
            [("evict", "a"), ("squeeze", "b")],
        ),
    ],
)
def test_when_and_how(seen: Sight, level: Level, actions: list[tuple[str, str]]) -> None:
    decision = decide(FRESH, seen, RULES)
    assert (decision.level, done(decision)) == (level, actions)


def test_no_more_cache_is_dropped_than_is_missing_and_not_again_at_once() -> None:
    pods = (pod("a", cache=500 * MIB), pod("b", cache=500 * MIB), pod("c", cache=500 * MIB))
    seen = sight(*pods, available=1500, stalled=True, free=400)
    decision = decide(FRESH, seen, RULES)
    assert [(a.uid, a.amount // MIB) for a in decision.actions] == [("a", 500), ("b", 100)]
    assert decide(decision.memory, replace(seen, now=130.9), RULES).actions == ()
    assert len(decide(decision.memory, replace(seen, now=131.0), RULES).actions) == 2


def test_dropping_cache_does_not_put_an_eviction_off() -> None:
    squeezed = decide(FRESH, sight(pod("a", cache=MIB), available=1500, stalled=True, free=0), RULES)
    assert done(squeezed) == [("squeeze", "a")]
    assert done(decide(squeezed.memory, sight(pod("a"), now=102, available=900, stalled=True), RULES)) == [
        ("evict", "a")
    ]


def test_more_blocks_held_than_there_are_must_be_so_at_two_checks() -> None:
    seen = sight(pod("a"), pod("b"), pod("c"), fits=2, now=113)
    first = decide(FRESH, seen, RULES)
    assert first.actions == ()
    assert decide(first.memory, replace(seen, now=125), RULES).actions == ()
    second = decide(first.memory, replace(seen, now=126), RULES)
    assert (second.level, done(second)) == (Level.OVER, [("evict", "a")])
    between = decide(first.memory, replace(seen, now=126, fits=3), RULES)
    assert decide(between.memory, replace(seen, now=139), RULES).actions == ()
    tolerant = replace(RULES, evict_over=False)
    assert decide(first.memory, replace(seen, now=126), tolerant).level is Level.CALM


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (pod("b", priority=-1), pod("a")),
        (pod("b", 401), pod("a", 400)),
        (pod("b", 400, allowance=BLOCK), pod("a", 600, allowance=2 * BLOCK)),  # over its blocks, not in all
        (pod("b", created=2.0), pod("a", created=1.0)),
        (pod("a"), pod("b")),
        (pod("b", 600, priority=9, room_at="worker2"), pod("a", 600)),  # one that can go on elsewhere is spared most
    ],
)
def test_who_goes_first(worse: Candidate, better: Candidate) -> None:
    for pods in ((worse, better), (better, worse)):
        decision = decide(FRESH, sight(*pods, available=900, stalled=True), RULES)
        assert [action.uid for action in decision.actions] == [worse.uid]


def test_one_that_can_go_on_elsewhere_migrates_and_the_action_says_where() -> None:
    (action,) = decide(FRESH, sight(pod("a", room_at="worker2"), available=900, stalled=True), RULES).actions
    assert (action.rung, action.room_at) == (Rung.MIGRATE, "worker2")
    assert action.why == "900 MiB available, the soft watermark is 1000 MiB"


def test_who_turns_out_not_to_be_needed_is_let_off() -> None:
    seen = sight(pod("a", 50, priority=-2), pod("b", 60, priority=-1), pod("c", 990), available=900, stalled=True)
    assert [a.uid for a in decide(FRESH, seen, RULES).actions] == ["a", "b"]
    assert [a.uid for a in decide(FRESH, replace(seen, available=850 * MIB), RULES).actions] == ["c"]


def test_who_was_told_to_go_counts_as_coming_until_his_time_is_over() -> None:
    seen = sight(pod("a"), pod("b"), available=900, stalled=True)
    first = decide(FRESH, seen, RULES)
    memory = evicted(first.memory, "a", 200.0)
    assert decide(memory, replace(seen, now=140.0), RULES).actions == ()
    assert [a.uid for a in decide(memory, replace(seen, now=140.0, available=500 * MIB), RULES).actions] == ["a", "b"]
    late = decide(memory, replace(seen, now=200.0), RULES)
    assert [a.uid for a in late.actions] == ["a"]


def test_a_killed_pod_that_does_not_end_is_counted_on_for_a_second_and_then_others_go() -> None:
    seen = sight(pod("a", 450), pod("b", 450), available=599)
    first = decide(FRESH, seen, RULES)
    assert done(first) == [("kill", "a")]
    waiting = decide(first.memory, replace(seen, now=101.9), RULES)
    assert (waiting.actions, waiting.short) == ((), "")
    second = decide(waiting.memory, replace(seen, now=102.0), RULES)
    assert done(second) == [("kill", "b")], "once more would bring nothing"
    both = decide(second.memory, replace(seen, now=130.9), RULES)
    assert (both.actions, both.short) == ((), "all pods that may go are not enough")
    assert done(decide(both.memory, replace(seen, now=131.0), RULES)) == [("kill", "a")]


def slowly(uses: list[int], **more: object) -> list[list[tuple[str, str]]]:
    """What is done while a killed pod ends, a look each 0.9 s; the last line is what was done then."""
    memory, found = decide(FRESH, sight(pod("a", 9000, priority=-1), pod("b"), available=300), RULES).memory, []
    for number, use in enumerate(uses, 1):
        seen = sight(pod("a", use, priority=-1), pod("b"), available=300, now=101 + 0.9 * number, **more)
        decision = decide(memory, seen, RULES)
        memory = decision.memory
        found.append(done(decision))
    return found


def test_a_killed_pod_is_counted_on_as_long_as_it_gets_smaller_and_after_half_a_minute_killed_anew() -> None:
    assert slowly([8900 - 100 * number for number in range(34)]) == [[]] * 33 + [[("kill", "a")]]
    assert slowly([8900, 8900, 8900]) == [[], [], [("kill", "b")]]


def test_that_it_gets_smaller_does_not_count_while_the_node_still_loses_more() -> None:
    assert slowly([8900, 8800], falling=1.0) == [[], [("kill", "b")]]


def test_a_killed_pod_that_lives_again_is_killed_again() -> None:
    assert slowly([0, 0, 900]) == [[("kill", "b")], [], [("kill", "a")]]


def test_what_the_api_says_to_the_eviction_of_a_killed_pod_changes_nothing() -> None:
    seen = sight(pod("a", 450), pod("b", 450), available=599)
    killed = decide(FRESH, seen, RULES).memory
    for memory in (evicted(killed, "a", 500.0), failed(killed, "a"), refused(killed, "a", 500.0)):
        assert decide(memory, replace(seen, now=101.9), RULES).actions == ()


def test_an_eviction_that_nobody_answered_is_not_asked_for_again() -> None:
    seen = sight(pod("a"), pod("b", priority=1), available=900, stalled=True)
    first = decide(FRESH, seen, RULES)
    assert done(first) == [("evict", "a")]
    assert decide(first.memory, replace(seen, now=500.0), RULES).actions == ()


BIG = 40 * BLOCK


@pytest.mark.parametrize(
    ("use", "more", "level"),
    [
        # holders took all that was lost, and have 80 MiB left: more will not be lost
        (BIG // MIB - 80, 900, Level.CALM),
        # … they have enough left to go on
        (BIG // MIB - 600, 900, Level.HARD),
        # … others took it
        (BIG // MIB - 80, 0, Level.HARD),
        # … others took a third of it; if they go on, 80 + 300 / 2 MiB are lost
        (BIG // MIB - 80, 600, Level.CALM),
        # … what the pod has above its blocks is others' use as well
        (BIG // MIB + 900, 900, Level.HARD),
    ],
)
def test_holders_are_not_expected_to_take_more_than_their_blocks(use: int, more: int, level: Level) -> None:
    before = decide(FRESH, sight(pod("a", use - more, allowance=BIG, blocks=40), available=1900), RULES)
    now = sight(pod("a", use, allowance=BIG, blocks=40), now=102.0, available=1000, falling=900.0 * MIB)
    assert decide(before.memory, now, RULES).level is level
    assert decide(before.memory, now, replace(RULES, enforced=False)).level is Level.HARD
    others = sight(pod("b", use, allowance=BIG, blocks=40), now=102.0, available=1000, falling=900.0 * MIB)
    assert decide(before.memory, others, RULES).level is Level.HARD, "what it had before is not known"


def test_below_the_hard_watermark_who_is_leaving_anyway_is_killed_first() -> None:
    seen = sight(pod("a", 450), pod("b", 450, priority=9), available=599)
    assert done(decide(FRESH, seen, RULES)) == [("kill", "a")]
    assert done(decide(evicted(FRESH, "b", 500.0), seen, RULES)) == [("kill", "b")]


def test_a_failed_eviction_is_tried_again_and_a_refused_one_later() -> None:
    seen = sight(pod("a"), pod("b", priority=1), available=900, stalled=True, now=101)
    first = decide(FRESH, seen, RULES)
    assert done(decide(failed(first.memory, "a"), replace(seen, now=131.0), RULES)) == [("evict", "a")]
    memory = refused(first.memory, "a", 140.0)
    assert done(decide(memory, replace(seen, now=131.0), RULES)) == [("evict", "b")]
    assert done(decide(memory, replace(seen, now=140.0), RULES)) == [("evict", "a")]


def test_budgets_hold_down_to_the_hard_watermark_or_for_ever() -> None:
    memory = refused(FRESH, "a", 1000.0)
    seen = sight(pod("a"), available=500)
    assert done(decide(memory, seen, RULES)) == [("kill", "a")]
    always = decide(memory, seen, replace(RULES, budgets_at_hard=True))
    assert (done(always), always.short) == ([], "all pods that may go are not enough")


@pytest.mark.parametrize("available", [900, 500])
def test_static_and_unmanaged_pods_as_the_configuration_says(available: int) -> None:
    seen = sight(pod("s", kind=Kind.STATIC), pod("u", kind=Kind.UNMANAGED), available=available, stalled=True)
    none = decide(FRESH, seen, replace(RULES, unmanaged=False))
    assert none.actions == ()
    static = decide(FRESH, seen, replace(RULES, unmanaged=False, static=True))
    assert done(static) == ([("kill", "s")] if available == 500 else [])
    assert done(decide(FRESH, seen, RULES)) == [("kill" if available == 500 else "evict", "u")]


@pytest.mark.parametrize(
    ("available", "falling", "seconds"),
    [
        (5000, 0.0, MOST_WAIT),
        (5000, -100.0, MOST_WAIT),
        (2000, 0.0, 0.5),
        (2000, 2000.0, 0.25),
        (1100, 5000.0, LEAST_WAIT),
        (900, 1.0, LEAST_WAIT),
        (900, 0.0, MOST_WAIT / 4),
    ],
)
def test_the_faster_it_falls_the_sooner_the_next_look(available: int, falling: float, seconds: float) -> None:
    assert wait(sight(available=available, falling=falling * MIB), RULES) == pytest.approx(seconds)


candidates = st.builds(
    Candidate,
    uid=st.uuids().map(str),
    priority=st.integers(-2, 2),
    created=st.sampled_from([0.0, 1.0, 2.0]),
    blocks=st.integers(1, 8),
    allowance=st.sampled_from([BLOCK, 2 * BLOCK]),
    use=st.integers(0, 3000).map(lambda n: n * MIB),
    cache=st.integers(0, 3000).map(lambda n: n * MIB),
    kind=st.sampled_from(Kind),
    room_at=st.sampled_from(["", "worker2"]),
)
pods = st.lists(candidates, max_size=8, unique_by=lambda c: c.uid).map(tuple)
sights = st.builds(
    Sight,
    now=st.sampled_from([101.0, 113.0, 150.0]),
    available=st.integers(0, 3000).map(lambda n: n * MIB),
    free=st.integers(0, 3000).map(lambda n: n * MIB),
    falling=st.integers(-1000, 1000).map(lambda n: float(n * MIB)),
    stalled=st.booleans(),
    fits=st.integers(0, 20),
    allocated=st.integers(0, 20),
    candidates=pods,
)
rules = st.builds(
    Rules,
    soft=st.just(RULES.soft),
    hard=st.just(RULES.hard),
    rush=st.just(RULES.rush),
    check=st.just(13.0),
    cooldown=st.just(30.0),
    evict_over=st.booleans(),
    unmanaged=st.booleans(),
    static=st.booleans(),
    budgets_at_hard=st.booleans(),
    enforced=st.booleans(),
)
times = st.sampled_from([100.0, 101.5, 500.0])
rounds = st.one_of(
    st.builds(Going, st.sampled_from([Rung.EVICT, Rung.KILL]), times),
    st.builds(Going, st.just(Rung.KILL), times, st.just(0), times),  # it has not got smaller
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Memory, Sight, Rules]:
    seen = draw(sights)
    some = st.sampled_from([*(c.uid for c in seen.candidates), "gone"])
    memory = Memory(
        checked=draw(st.sampled_from([100.0, float("-inf")])),
        acted=draw(st.sampled_from([100.0, float("-inf")])),
        was_over=draw(st.booleans()),
        going=draw(st.dictionaries(some, rounds, max_size=3)),
        refused=draw(st.dictionaries(some, st.sampled_from([100.0, 500.0]), max_size=3)),
    )
    return memory, seen, draw(rules)


def needed(memory: Memory, seen: Sight, rule: Rules, level: Level) -> int:
    """What a round has to bring, told anew: bytes, or blocks."""
    alive = {uid: going for uid, going in memory.going.items() if going.until > seen.now}
    uses = {c.uid: c.use for c in seen.candidates}
    stuck = {uid: going for uid, going in memory.going.items() if going.again > seen.now and not uses.get(uid)}
    if level is Level.OVER:
        return seen.allocated - seen.fits - sum(c.blocks for c in seen.candidates if c.uid in alive | stuck)
    ahead = seen.available - (max(0.0, seen.falling) / 2 if level is Level.HARD else 0)
    hard = {uid for uid, going in alive.items() if level is not Level.HARD or going.rung is Rung.KILL}
    return int(rule.soft - ahead) - sum(c.use for c in seen.candidates if c.uid in hard)


@given(situations())
def test_one_round_brings_what_is_needed_and_no_more(situation: tuple[Memory, Sight, Rules]) -> None:
    memory, seen, rule = situation
    decision = decide(memory, seen, rule)
    by_uid = {c.uid: c for c in seen.candidates}
    ends = [by_uid[a.uid] for a in decision.actions if a.rung is not Rung.SQUEEZE]
    need = needed(memory, seen, rule, decision.level)
    weights = [c.blocks if decision.level is Level.OVER else c.use for c in ends]
    assert bool(decision.short) <= (sum(weights) < need)
    if ends:
        assert decision.short or sum(weights) >= need
        assert all(sum(weights) - weight < need for weight in weights)
    squeezed = sum(a.amount for a in decision.actions if a.rung is Rung.SQUEEZE)
    assert squeezed <= max(0, rule.soft - seen.free)


@given(situations())
def test_only_holders_are_touched_once_each_and_as_the_configuration_says(
    situation: tuple[Memory, Sight, Rules],
) -> None:
    memory, seen, rule = situation
    decision = decide(memory, seen, rule)
    by_uid = {c.uid: c for c in seen.candidates}
    assert len({a.uid for a in decision.actions}) == len(decision.actions)
    for action in decision.actions:
        kind = by_uid[action.uid].kind  # a KeyError here is somebody who holds no block
        assert (
            action.rung is Rung.SQUEEZE
            or kind is Kind.MANAGED
            or (rule.unmanaged and kind is Kind.UNMANAGED)
            or (rule.static and kind is Kind.STATIC and action.rung is Rung.KILL)
        )
        assert (action.rung is Rung.KILL) == (decision.level is Level.HARD)
        if action.rung in (Rung.EVICT, Rung.MIGRATE):
            assert not memory.refused.get(action.uid, 0) > seen.now
            assert action.uid not in memory.going or memory.going[action.uid].until <= seen.now


@given(situations(), st.randoms())
def test_the_order_is_total_and_does_not_depend_on_how_pods_are_listed(
    situation: tuple[Memory, Sight, Rules], chance: Random
) -> None:
    memory, seen, rule = situation
    mixed = list(seen.candidates)
    chance.shuffle(mixed)
    assert decide(memory, replace(seen, candidates=tuple(mixed)), rule).actions == decide(memory, seen, rule).actions
    assert len({c.order for c in seen.candidates}) == len(seen.candidates)


@given(pods, rules, st.integers(0, 3000))
def test_it_ends(holders: tuple[Candidate, ...], rule: Rules, available: int) -> None:
    """Where every action succeeds, rounds come to an end: enough is there, or nobody may go."""
    memory, here, left = Memory(), list(holders), available * MIB
    for number in range(len(holders) + 1):
        seen = Sight(1000.0 + 100 * number, left, left, 0.0, True, 0, 0, tuple(here))
        decision = decide(memory, seen, rule)
        memory = decision.memory
        gone = {a.uid for a in decision.actions if a.rung is not Rung.SQUEEZE}
        left += sum(c.use for c in here if c.uid in gone)
        here = [c for c in here if c.uid not in gone]
        if not gone:
            break
    else:
        pytest.fail("somebody was told to go after everybody had gone")
    assert left >= rule.soft or decision.short
