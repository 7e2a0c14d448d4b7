# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When memory has to come back from the pods that hold blocks, from which of them, and how: pure decisions.

Only holders of blocks are known here, so nobody else can be chosen. MemAvailable counts page cache as available, so
what a pod frees is what it could not give back otherwise (its *use*); emptying its cache raises MemFree, which ends
stalls, but no watermark. Moving pages between NUMA nodes frees nothing of the whole node; that rung is not here.

| level | when | rungs |
|---|---|---|
| HARD | what is available falls below the hard watermark, or will within half a second at this rate | kill |
| SOFT | it is below the soft one, and tasks stall, or a check finds it so | migrate, then evict, and squeeze |
| PRESSED | tasks stall, and less than twice the soft watermark is available | squeeze |
| OVER | two checks find more blocks held than the node has memory for | migrate, then evict |

What was told to go and still holds memory counts as coming, for the time that it was given; so nothing is freed twice.
Who was killed has a second, and more as long as he gets smaller. Who does not is not counted on any more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

LOOK_AHEAD = 0.5  # seconds; a look and a kill take less
RATE_SECONDS = 1.0  # over which the growth of others is taken
WATCH_SECONDS = 5.0  # after a round pods are read in each look
KILL_SECONDS = 1.0  # the memory of processes that were killed is back by then, or they get smaller …
LONG_KILL_SECONDS = 30.0  # … and are waited for at most so long
NOISE = 1 << 20  # a pod's use differs by less though nothing happened
LEAST_WAIT, MOST_WAIT = 0.1, 1.0  # seconds between two looks


class Level(enum.Enum):
    """How bad it is."""

    CALM = "calm"
    PRESSED = "pressed"
    OVER = "over"
    SOFT = "soft"
    HARD = "hard"


class Rung(enum.Enum):
    """What is done to a pod, from the mildest."""

    SQUEEZE = "squeeze"  # its page cache is dropped
    MIGRATE = "migrate"  # evicted, and another node has blocks for it
    EVICT = "evict"
    KILL = "kill"  # its processes are ended by the kernel; nobody is asked


class Kind(enum.Enum):
    """Who looks after a pod."""

    MANAGED = "managed"
    UNMANAGED = "unmanaged"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class Rules:
    """The configuration in bytes."""

    soft: int
    hard: int
    rush: int  # bytes a second that may go at any time: half of the memory within five
    check: float
    cooldown: float
    evict_over: bool
    unmanaged: bool
    static: bool
    budgets_at_hard: bool  # disruption budgets are honoured there too
    enforced: bool  # pods are held to their blocks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that holds blocks."""

    uid: str
    priority: int
    created: float  # seconds since the epoch
    blocks: int
    allowance: int  # bytes of its blocks
    use: int  # bytes that only its end brings back
    cache: int  # bytes of page cache
    kind: Kind = Kind.MANAGED
    room_at: str = ""  # another node that has blocks for it

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Lowest priority first, then largest use over its blocks, then youngest."""
        return self.priority, self.allowance - self.use, -self.created, self.uid


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen at one moment."""

    now: float
    available: int
    free: int
    falling: float  # bytes a second that `available` loses
    stalled: bool  # the kernel said so since the last look
    fits: int  # blocks that there is memory for, beside what others use now
    allocated: int  # blocks that are held
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Going:
    """A pod that was told to go."""

    rung: Rung
    until: float  # by then it is gone, or counts as staying
    least: int = 0  # of one that was killed: what it used since, at the least …
    again: float = float("-inf")  # … and when it may be killed once more, unless it grows before


@dataclass(frozen=True, slots=True)
class Others:
    """What all but these holders used when it was looked at, less a constant, within their blocks."""

    holders: frozenset[str] = frozenset()
    seen: tuple[tuple[float, int], ...] = ()


_NONE: Mapping[str, Going] = MappingProxyType({})
_NOBODY: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known from earlier looks."""

    checked: float = float("-inf")
    acted: float = float("-inf")  # when pods were last told to go …
    squeezed: float = float("-inf")  # … and when page cache was last dropped
    was_over: bool = False  # at the last check
    going: Mapping[str, Going] = field(default_factory=lambda: _NONE)
    refused: Mapping[str, float] = field(default_factory=lambda: _NOBODY)  # by a budget, and until when
    others: Others = Others()


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do."""

    rung: Rung
    uid: str
    amount: int  # bytes that this should bring
    why: str
    room_at: str = ""


Ends = tuple[tuple[Action, ...], str]  # who is told to go, and what is missing then


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what to remember."""

    level: Level
    actions: tuple[Action, ...]
    memory: Memory
    short: str = ""  # what is missing though everyone who may go was told to


def decide(memory: Memory, sight: Sight, rules: Rules) -> Decision:
    """What to do after a look."""
    due = sight.now - memory.checked >= rules.check
    over = rules.evict_over and sight.allocated > sight.fits
    memory = replace(_forget(memory, sight), others=_watched(memory.others, sight))
    level = _level(sight, rules, _ahead(memory, sight, rules), due, over and memory.was_over)
    if due:
        memory = replace(memory, checked=sight.now, was_over=over)
    rested = sight.now - memory.acted >= rules.cooldown
    squeezes = _squeeze(memory, sight, rules) if level in (Level.PRESSED, Level.SOFT) else ()
    ends, short = _ENDS[level](memory, sight, rules) if level is Level.HARD or rested else ((), "")
    leaving = {action.uid for action in ends}
    squeezes = tuple(action for action in squeezes if action.uid not in leaving)
    if ends:
        memory = replace(memory, acted=sight.now, going=_with(memory.going, ends, sight.now))
    if squeezes:
        memory = replace(memory, squeezed=sight.now)
    return Decision(level, ends + squeezes, memory, short)


def needs_pods(memory: Memory, sight: Sight, rules: Rules) -> bool:
    """Whether this look is of interest without its candidates; reading them costs some files."""
    due = sight.now - memory.checked >= rules.check
    lately = sight.now - memory.acted < WATCH_SECONDS  # then what others take is hidden by what comes back
    ahead = sight.available - max(0.0, sight.falling) * LOOK_AHEAD
    return due or lately or _level(sight, rules, ahead, due, over=False) is not Level.CALM


def may_evict_soon(sight: Sight, rules: Rules) -> bool:
    """Whether it is worth while to know where else blocks are free."""
    return sight.available < 2 * rules.soft or sight.allocated > sight.fits


def evicted(memory: Memory, uid: str, until: float) -> Memory:
    """The API took the eviction; by then the pod should be gone, and what it has in volumes of memory."""
    if _killed(memory, uid):
        return memory  # that is quicker
    return replace(memory, going={**memory.going, uid: Going(Rung.EVICT, until)})


def failed(memory: Memory, uid: str) -> Memory:
    """Nothing was done; the pod may be chosen again, unless it was killed meanwhile."""
    going = {other: kept for other, kept in memory.going.items() if other != uid or _killed(memory, uid)}
    return replace(memory, going=going)


def refused(memory: Memory, uid: str, until: float) -> Memory:
    """A disruption budget does not let it go; it is not asked again before, and somebody else may be chosen at once."""
    return replace(failed(memory, uid), refused={**memory.refused, uid: until}, acted=float("-inf"))


def spared(memory: Memory, actions: Iterable[Action], until: float) -> Memory:
    """A dry run: all go on as if it had been done, so that each is told of once and not in every look."""
    told = {action.uid: Going(action.rung, until) for action in actions if action.rung is not Rung.SQUEEZE}
    return replace(memory, going={**memory.going, **told})


def wait(sight: Sight, rules: Rules) -> float:
    """Seconds until the next look: half of the time in which the soft watermark can be reached."""
    if sight.available <= rules.soft:
        return LEAST_WAIT if sight.falling > 0 else MOST_WAIT / 4
    soonest = (sight.available - rules.soft) / max(sight.falling, rules.rush, 1)
    return min(MOST_WAIT, max(LEAST_WAIT, soonest / 2))


def _level(sight: Sight, rules: Rules, ahead: float, due: bool, over: bool) -> Level:
    if ahead < rules.hard:
        return Level.HARD
    if sight.available < rules.soft and (sight.stalled or due):
        return Level.SOFT
    if due and over:
        return Level.OVER
    return Level.PRESSED if sight.stalled and sight.available < 2 * rules.soft else Level.CALM


def _ahead(memory: Memory, sight: Sight, rules: Rules) -> float:
    """What is available after the time that is looked ahead, at this rate. But holders stop where their blocks end, and
    what comes back from those that were killed does not make the others slower."""
    least, most = _growth(memory.others)
    lost = max(0.0, sight.falling) * LOOK_AHEAD
    if rules.enforced:
        left = (c.allowance - c.use for c in sight.candidates if not _killed(memory, c.uid))
        lost = min(lost, sum(max(0, more) for more in left) + most * LOOK_AHEAD)
    return sight.available - max(lost, least * LOOK_AHEAD)


def _watched(others: Others, sight: Sight) -> Others:
    """With what this look shows; anew where more pods hold blocks, for what they had before counts as others' use."""
    holders = frozenset(c.uid for c in sight.candidates)
    used = -sight.available - sum(min(c.use, c.allowance) for c in sight.candidates)
    seen = (*(others.seen if holders <= others.holders else ()), (sight.now, used))
    old = sum(sight.now - when >= RATE_SECONDS for when, _used in seen)
    return Others(holders, seen[max(0, old - 1) :])


def _growth(others: Others) -> tuple[float, float]:
    """Bytes a second that others take more: at the least, and as if all since the look before had come in the last."""
    (then, before), (now, used) = others.seen[0], others.seen[-1]
    more, passed = max(0, used - before), now - then
    return more / max(passed, RATE_SECONDS), more / min(passed, RATE_SECONDS) if passed > 0 else float("inf")


def _hard(memory: Memory, sight: Sight, rules: Rules) -> Ends:
    """Back above the soft watermark, at the present rate. Who was evicted goes first: he is leaving anyway."""
    need = int(rules.soft - _ahead(memory, sight, rules)) - _coming(memory, sight, (Rung.KILL,))
    able = [c for c in sight.candidates if not _killed(memory, c.uid) and _may(c, rules, last_rung=True)]
    if rules.budgets_at_hard:
        able = [c for c in able if c.uid not in memory.refused]
    ordered = sorted(able, key=lambda c: (c.uid not in memory.going, c.order))
    why = f"{_mib(sight.available)} available, the hard watermark is {_mib(rules.hard)}"
    if sight.falling > 0:
        why += f", {_mib(sight.falling)} are lost a second"
    return _take(ordered, need, lambda c: c.use, lambda c: Action(Rung.KILL, c.uid, c.use, why))


def _soft(memory: Memory, sight: Sight, rules: Rules) -> Ends:
    need = rules.soft - sight.available - _coming(memory, sight, (Rung.MIGRATE, Rung.EVICT, Rung.KILL))
    why = f"{_mib(sight.available)} available, the soft watermark is {_mib(rules.soft)}"
    return _evict(memory, sight, rules, need, lambda c: c.use, why)


def _over(memory: Memory, sight: Sight, rules: Rules) -> Ends:
    leaving = sum(c.blocks for c in sight.candidates if c.uid in memory.going)
    need = sight.allocated - sight.fits - leaving
    why = f"{sight.allocated} blocks are held and the node has memory for {sight.fits}"
    return _evict(memory, sight, rules, need, lambda c: c.blocks, why)


def _nobody(_memory: Memory, _sight: Sight, _rules: Rules) -> Ends:
    return (), ""


_ENDS: Mapping[Level, Callable[[Memory, Sight, Rules], Ends]] = MappingProxyType(
    {Level.HARD: _hard, Level.SOFT: _soft, Level.OVER: _over, Level.PRESSED: _nobody, Level.CALM: _nobody}
)


def _squeeze(memory: Memory, sight: Sight, rules: Rules) -> tuple[Action, ...]:
    """As much page cache as is missing to have the soft watermark free, not only available."""
    if not sight.stalled or sight.now - memory.squeezed < rules.cooldown:
        return ()
    need, actions = rules.soft - sight.free, []
    why = f"tasks stall for want of memory, {_mib(sight.free)} are free"
    for pod in sorted(sight.candidates, key=lambda c: c.order):
        amount = min(need, pod.cache)
        if amount > 0 and pod.uid not in memory.going:
            actions.append(Action(Rung.SQUEEZE, pod.uid, amount, why))
            need -= amount
    return tuple(actions)


def _evict(memory: Memory, sight: Sight, rules: Rules, need: int, weight: Callable[[Candidate], int], why: str) -> Ends:
    """Those that can go on elsewhere first."""
    blocked = memory.going.keys() | memory.refused.keys()
    able = [c for c in sight.candidates if c.uid not in blocked and _may(c, rules)]
    ordered = sorted(able, key=lambda c: (not c.room_at, c.order))

    def action(pod: Candidate) -> Action:
        return Action(Rung.MIGRATE if pod.room_at else Rung.EVICT, pod.uid, pod.use, why, pod.room_at)

    return _take(ordered, need, weight, action)


def _may(pod: Candidate, rules: Rules, last_rung: bool = False) -> bool:
    if pod.kind is Kind.STATIC:
        return rules.static and last_rung
    return rules.unmanaged or pod.kind is Kind.MANAGED


def _take(
    ordered: Sequence[Candidate],
    need: int,
    weight: Callable[[Candidate], int],
    action: Callable[[Candidate], Action],
) -> Ends:
    """Who is needed to bring enough together, the most valuable let off first; and what is missing if all don't."""
    chosen = [pod for pod in ordered if weight(pod) > 0]
    total = sum(map(weight, chosen))
    for pod in reversed(chosen[:]):
        if total - weight(pod) >= need:
            chosen.remove(pod)
            total -= weight(pod)
    short = "" if total >= need else "all pods that may go are not enough"
    return tuple(action(pod) for pod in chosen), short


def _coming(memory: Memory, sight: Sight, rungs: tuple[Rung, ...]) -> int:
    coming = {uid for uid, going in memory.going.items() if going.rung in rungs and going.until > sight.now}
    return sum(c.use for c in sight.candidates if c.uid in coming)


def _killed(memory: Memory, uid: str) -> bool:
    return uid in memory.going and memory.going[uid].rung is Rung.KILL


def _forget(memory: Memory, sight: Sight) -> Memory:
    """Drop who is gone, who did not go in time, and refusals that are over."""
    uses = {candidate.uid: candidate.use for candidate in sight.candidates}
    told = {uid: _ending(kept, uses[uid], sight) for uid, kept in memory.going.items() if uid in uses}
    going = {uid: kept for uid, kept in told.items() if kept.until > sight.now or _stuck(kept, uses[uid], sight.now)}
    refused = {uid: until for uid, until in memory.refused.items() if uid in uses and until > sight.now}
    return replace(memory, going=going, refused=refused)


def _ending(going: Going, use: int, sight: Sight) -> Going:
    """One that was killed is waited for as long as it gets smaller, unless the node loses more than that brings."""
    if going.rung is not Rung.KILL:
        return going
    smaller = going.least - use >= NOISE and sight.falling <= 0
    until = min(sight.now + KILL_SECONDS, going.again) if smaller else going.until
    return replace(going, until=max(until, going.until), least=min(use, going.least))


def _stuck(going: Going, use: int, now: float) -> bool:
    """Whether it was killed, and neither ends nor lives again: to kill it once more brings nothing."""
    return now < going.again and use < going.least + NOISE


def _with(going: Mapping[str, Going], actions: Iterable[Action], now: float) -> Mapping[str, Going]:
    """Those who are now told to go. An eviction's time is known when the API has answered (`evicted`, `failed`)."""
    new = {
        action.uid: Going(Rung.KILL, now + KILL_SECONDS, action.amount, now + LONG_KILL_SECONDS)
        if action.rung is Rung.KILL
        else Going(action.rung, float("inf"))
        for action in actions
    }
    return {**going, **new}


def _mib(amount: float) -> str:
    return f"{amount / (1 << 20):.0f} MiB"
