# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When memory has to come back from the pods that hold blocks, from which of them, and how: pure decisions.

Only holders of blocks are known here, so nobody else can be chosen. MemAvailable counts page cache as available, so
what a pod frees is what it could not give back otherwise (its *use*); emptying its cache raises MemFree, which ends
stalls, but no watermark. Moving pages between NUMA nodes frees nothing of the whole node; that rung is not here.

| level | when | rungs |
|---|---|---|
| HARD | what is available falls below the hard watermark, or will within half a second at this rate | kill |
| SOFT | it is below the soft one, and tasks stall, or a check finds it so | squeeze, then migrate, then evict |
| PRESSED | tasks stall, but enough is available | squeeze |
| OVER | two checks find more blocks held than the node can give | migrate, then evict |

What was told to go and still holds memory counts as coming, for the time that it was given; so nothing is freed twice.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

LOOK_AHEAD = 0.5  # seconds; a look and a kill take less
KILL_SECONDS = 1.0  # the memory of processes that were killed is back by then
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
    target: int  # blocks, as allocated
    allocated: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Going:
    """A pod that was told to go."""

    rung: Rung
    until: float  # by then it is gone, or counts as staying


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
    over = rules.evict_over and sight.allocated > sight.target
    level = _level(memory, sight, rules, due, over)
    memory = _forget(memory, sight)
    if due:
        memory = replace(memory, checked=sight.now, was_over=over)
    rested = sight.now - memory.acted >= rules.cooldown
    squeezes = _squeeze(memory, sight, rules) if level in (Level.PRESSED, Level.SOFT) else ()
    ends, short = _ENDS[level](memory, sight, rules) if level is Level.HARD or rested else ((), "")
    leaving = {action.uid for action in ends}
    squeezes = tuple(action for action in squeezes if action.uid not in leaving)
    if ends:
        memory = replace(memory, acted=sight.now, going=_with(memory.going, ends, sight.now, rules))
    if squeezes:
        memory = replace(memory, squeezed=sight.now)
    return Decision(level, squeezes + ends, memory, short)


def needs_pods(memory: Memory, sight: Sight, rules: Rules) -> bool:
    """Whether this look is of interest without its candidates; reading them costs some files."""
    due = sight.now - memory.checked >= rules.check
    return due or _level(memory, sight, rules, due, over=False) is not Level.CALM


def may_evict_soon(sight: Sight, rules: Rules) -> bool:
    """Whether it is worth while to know where else blocks are free."""
    return sight.available < 2 * rules.soft or sight.allocated > sight.target


def evicted(memory: Memory, uid: str, rung: Rung, until: float) -> Memory:
    """The API took the eviction; by then the pod should be gone, and what it has in volumes of memory."""
    return replace(memory, going={**memory.going, uid: Going(rung, until)})


def failed(memory: Memory, uid: str) -> Memory:
    """Nothing was done; the pod may be chosen again."""
    return replace(memory, going={other: going for other, going in memory.going.items() if other != uid})


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


def _level(memory: Memory, sight: Sight, rules: Rules, due: bool, over: bool) -> Level:
    ahead = sight.available - max(0.0, sight.falling) * LOOK_AHEAD
    if ahead < rules.hard:
        return Level.HARD
    if sight.available < rules.soft and (sight.stalled or due):
        return Level.SOFT
    if due and over and memory.was_over:
        return Level.OVER
    return Level.PRESSED if sight.stalled else Level.CALM


def _hard(memory: Memory, sight: Sight, rules: Rules) -> Ends:
    """Back above the soft watermark, at the present rate. Who was evicted goes first: he is leaving anyway."""
    ahead = sight.available - max(0.0, sight.falling) * LOOK_AHEAD
    coming = _coming(memory, sight, (Rung.KILL,))
    need = int(rules.soft - ahead) - coming
    killed = {uid for uid, going in memory.going.items() if going.rung is Rung.KILL}
    able = [c for c in sight.candidates if c.uid not in killed and _may(c, rules, last_rung=True)]
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
    need = sight.allocated - sight.target - leaving
    why = f"{sight.allocated} blocks are held and the node can give {sight.target}"
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
    going = memory.going
    return sum(c.use for c in sight.candidates if c.uid in going and going[c.uid].rung in rungs)


def _forget(memory: Memory, sight: Sight) -> Memory:
    """Drop who is gone, who did not go in time, and refusals that are over."""
    here = {candidate.uid for candidate in sight.candidates}
    going = {uid: kept for uid, kept in memory.going.items() if uid in here and kept.until > sight.now}
    refused = {uid: until for uid, until in memory.refused.items() if uid in here and until > sight.now}
    return replace(memory, going=going, refused=refused)


def _with(going: Mapping[str, Going], actions: Iterable[Action], now: float, rules: Rules) -> Mapping[str, Going]:
    """Those who are now told to go. An eviction's time is known when it is done (`evicted`)."""
    ends = {Rung.KILL: now + KILL_SECONDS, Rung.EVICT: now + rules.cooldown, Rung.MIGRATE: now + rules.cooldown}
    new = {action.uid: Going(action.rung, ends[action.rung]) for action in actions if action.rung in ends}
    return {**going, **new}


def _mib(amount: float) -> str:
    return f"{amount / (1 << 20):.0f} MiB"
