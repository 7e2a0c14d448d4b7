# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Watches the memory and does what `reclaim` decides.

Three threads. The agent's own brings a snapshot in each round (`tick`) and takes what is withdrawn. The watcher waits
for the kernel's word, looks at what is available (the sooner again the faster it falls), decides, and kills where that
must be. What may take long is the worker's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from colocation.common.journal import Log
from colocation.common.status import Cell, Table
from colocation.device_plugin import migrate, reclaim, reclaim_cgroup
from colocation.device_plugin.evict import Answer, Said
from colocation.device_plugin.migrate import Room, Wish
from colocation.device_plugin.pressure import MEMORY, Pressure
from colocation.device_plugin.reclaim import Action, Candidate, Kind, Level, Memory, Rules, Rung, Sight
from colocation.device_plugin.reclaim_config import Reclaim
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.device_plugin.reclaim_offer import Withdrawn
from colocation.device_plugin.reclaim_view import PodHolding, Snapshot
from colocation.device_plugin.reclaim_work import NOTHING, Identities, Job, Known, Worker

FALL_SECONDS = 1.0  # over which the rate of falling is taken
KEPT = 20  # actions that the status shows
GONE_SECONDS = 5.0  # after its grace period an evicted pod should be gone
COLUMNS = ("when", "pod", "action", "freed", "result", "why")
_SAID = {"done": "took memory back", "gone": "a pod went by itself", "dry run": "would take memory back"}
log = Log("reclaim")


def rules(config: Reclaim, total: int) -> Rules:
    """The configuration for a node with so much memory."""
    return Rules(
        int(total * config.soft_percent / 100),
        int(total * config.hard_percent / 100),
        total // 10,
        config.check_seconds,
        config.cooldown_seconds,
        config.over_allocation == "evict",
        config.victims.unmanaged,
        config.victims.static,
        config.victims.budgets == "always",
        config.enforce,
    )


@dataclass(slots=True)
class Fall:
    """How fast what is available falls."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def after(self, now: float, available: int) -> float:
        """Bytes a second, over the last second or since the look before it."""
        while len(self._seen) > 1 and now - self._seen[1][0] >= FALL_SECONDS:
            self._seen.popleft()
        self._seen.append((now, available))
        then, before = self._seen[0]
        return (before - available) / max(now - then, FALL_SECONDS) if len(self._seen) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """An action, for the status."""

    when: str
    pod: str
    rung: str
    amount: int
    result: str
    why: str


class Reclaimer:
    """`tick` and `stop` are called from one thread, the rest from any."""

    def __init__(
        self,
        config: Reclaim,
        identities: Identities,
        metrics: ReclaimMetrics,
        meminfo: str = "/proc/meminfo",
        pressure: str = MEMORY,
        clock: Callable[[], float] = time.monotonic,
        known: Mapping[str, Known] = NOTHING,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._meminfo = meminfo
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._withdrawn = Withdrawn()
        self._answers: deque[tuple[Job, Answer]] = deque()
        self._memory = Memory()
        self._fall = Fall()
        self._done: deque[Done] = deque(maxlen=KEPT)
        self._short = self._problem = ""
        self._stopping = threading.Event()
        self._pressure = Pressure(config.pressure.stall_ms, config.pressure.window_ms, pressure)
        self._worker = Worker(identities, self._answered, self._left, clock, known)
        self._thread = threading.Thread(target=self._watch, name="reclaim-watch", daemon=True)
        self._thread.start()

    @property
    def withdrawn(self) -> frozenset[str]:
        """Blocks that may not be offered: they belong to pods that were told to go."""
        return self._withdrawn.blocks

    def tick(self, now: float, snapshot: Snapshot) -> None:
        """Take what is known now of the offer and of who holds blocks."""
        with self._lock:
            first = self._snapshot is None
            self._snapshot = snapshot
            self._withdrawn = self._withdrawn.seen(snapshot, now, self._config.rest_seconds)
        if first:
            self._pressure.wake()
        if stalls := self._pressure.look():
            self._metrics.stalls(stalls)

    @property
    def worker(self) -> Worker:
        """Who asks the API."""
        return self._worker

    @property
    def room(self) -> tuple[Room, ...]:
        """Other nodes with free blocks, as far as it was of interest."""
        return self._worker.rooms

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._pressure.wake()
        self._thread.join(3)
        self._worker.stop()
        if not self._thread.is_alive():
            self._pressure.close()

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps it from working as it should."""
        return (self._problem,) if self._problem else ()

    @property
    def facts(self) -> tuple[tuple[str, Cell], ...]:
        """For the status."""
        how = f"polling: {self._pressure.problem}" if self._pressure.problem else "the kernel's triggers"
        return (
            ("memory pressure is known from", how),
            ("memory is taken back", "dry run" if self._config.dry_run else self._short or "when it is needed"),
            ("the API is asked", self._worker.problem or "with success"),
            ("blocks withdrawn", len(self.withdrawn)),
        )

    @property
    def table(self) -> Table:
        """The last actions, newest first."""
        rows = tuple(
            (d.when, d.pod, d.rung, f"{d.amount >> 20} MiB", d.result, d.why) for d in reversed(tuple(self._done))
        )
        return Table("Memory taken back", COLUMNS, rows)

    # The watcher's thread.

    def _watch(self) -> None:
        wait = reclaim.MOST_WAIT
        while not self._stopping.is_set():
            stalled = self._pressure.wait(wait)
            try:
                wait = self._round(stalled)
                self._problem = ""
            except Exception as problem:
                wait = reclaim.MOST_WAIT
                if not self._problem:
                    log.exception("the memory could not be looked at; the next try follows")
                self._problem = f"the memory could not be looked at: {problem}"

    def _round(self, stalled: bool) -> float:
        """Look, decide, act; the seconds until the next look."""
        began, snapshot = self._clock(), self._snapshot
        if stalled:
            self._metrics.triggers.add()
        if snapshot is None or self._stopping.is_set():
            return reclaim.MOST_WAIT
        self._take_answers(began)
        meminfo = read_meminfo(self._meminfo)
        rule = rules(self._config, meminfo.total)
        falling = self._fall.after(began, meminfo.available)
        sight = Sight(began, meminfo.available, meminfo.free, falling, stalled, snapshot.fits, snapshot.allocated, ())
        if reclaim.needs_pods(self._memory, sight, rule):
            candidates = self._candidates(snapshot)
            held = snapshot.held({candidate.uid for candidate in candidates})  # the snapshot may have pods that ended
            sight = replace(sight, candidates=candidates, allocated=held)
            decision = reclaim.decide(self._memory, sight, rule)
            self._memory = decision.memory
            self._metrics.round(decision.level)
            self._complain(decision.short, decision.level)
            self._act(decision.actions, snapshot, began)
        self._worker.know(snapshot.pods, snapshot.resource, reclaim.may_evict_soon(sight, rule))
        return reclaim.wait(sight, rule)

    def _candidates(self, snapshot: Snapshot) -> tuple[Candidate, ...]:
        found = []
        for pod in snapshot.pods:
            use = reclaim_cgroup.read(pod.cgroup) if pod.cgroup and pod.uid else None
            if use is not None:
                fact, blocks = self._worker.facts(pod.uid), len(pod.blocks)
                size = blocks * snapshot.block_bytes
                kind = fact.kind if "-" in pod.uid else Kind.STATIC  # the kubelet's own pods have a hash as UID
                found.append(Candidate(pod.uid, fact.priority, fact.created, blocks, size, use.use, use.cache, kind))
        wishes = [Wish(c.uid, c.blocks, self._worker.facts(c.uid)) for c in sorted(found, key=lambda c: c.order)]
        places = migrate.places(wishes, self._worker.rooms)
        return tuple(replace(c, room_at=places.get(c.uid, "")) for c in found)

    def _act(self, actions: Sequence[Action], snapshot: Snapshot, began: float) -> None:
        pods = {pod.uid: pod for pod in snapshot.pods}
        if self._config.dry_run:
            for action in actions:
                self._note(pods[action.uid], action, "dry run", "")
            self._memory = reclaim.spared(self._memory, actions, began + self._config.cooldown_seconds)
            return
        with self._lock:
            for action in actions:
                if action.rung is not Rung.SQUEEZE:
                    self._withdrawn = self._withdrawn.told(pods[action.uid])
        for number, action in enumerate(actions):
            job = Job(action, pods[action.uid], snapshot.resource, began + self._config.cooldown_seconds)
            if action.rung is Rung.KILL:
                job = self._kill(job)
            if number == 0:
                self._metrics.first_action.observe(self._clock() - began)
            self._worker.put(job)

    def _kill(self, job: Job) -> Job:
        """Kill a pod's processes; what is left to do for it: the eviction, so that it does not come back here."""
        why = reclaim_cgroup.kill(job.pod.cgroup)
        self._note(job.pod, job.action, "failed" if why else "done", why)
        return replace(job, action=replace(job.action, rung=Rung.EVICT)) if why else job

    def _take_answers(self, now: float) -> None:
        """What the worker did since the last look."""
        while self._answers:
            job, answer = self._answers.popleft()
            uid = job.pod.uid
            if job.action.rung is Rung.SQUEEZE:
                continue
            if answer.said in (Said.DONE, Said.GONE):
                self._memory = reclaim.evicted(self._memory, uid, now + self._worker.facts(uid).grace + GONE_SECONDS)
            elif answer.said is Said.REFUSED:
                self._memory = reclaim.refused(self._memory, uid, now + answer.again)
            else:
                self._memory = reclaim.failed(self._memory, uid)
            if answer.said in (Said.REFUSED, Said.FAILED):
                with self._lock:
                    self._withdrawn = self._withdrawn.stays(uid)

    def _complain(self, short: str, level: Level) -> None:
        if short and short != self._short:
            log.error("the memory that is needed can't be taken back", level=level.value, why=short)
        self._short = short

    # The worker's thread.

    def _left(self) -> int:
        """Blocks that the node offers now without those of pods that were told to go."""
        with self._lock:
            assert self._snapshot is not None
            return self._withdrawn.left(self._snapshot)

    def _answered(self, job: Job, answer: Answer) -> None:
        self._answers.append((job, answer))
        rung = job.action.rung
        result = {Said.DONE: "done", Said.GONE: "gone", Said.REFUSED: "refused", Said.FAILED: "failed"}[answer.said]
        action = replace(job.action, rung=Rung.EVICT) if rung is Rung.KILL else job.action
        self._note(job.pod, action, result, answer.why)

    def _note(self, pod: PodHolding, action: Action, result: str, why: str) -> None:
        name = f"{pod.namespace}/{pod.name}"
        say = log.info if result in _SAID else log.warning
        fields = {"pod": name, "rung": action.rung.value, "bytes": action.amount, "because": action.why}
        if action.room_at:
            fields["room_at"] = action.room_at
        say(_SAID.get(result, "could not take memory back"), **fields, **({"why": why} if why else {}))
        self._metrics.action(action, result)
        when = time.strftime("%H:%M:%S", time.gmtime())
        self._done.append(Done(when, name, action.rung.value, action.amount, result, why or action.why))


@dataclass(frozen=True, slots=True)
class Meminfo:
    """Bytes."""

    total: int
    free: int
    available: int


def read_meminfo(path: str) -> Meminfo:
    """The node's memory now."""
    found: dict[str, int] = {}
    with open(path, encoding="ascii") as stream:
        for line in stream:
            name, _colon, rest = line.partition(":")
            if name in ("MemTotal", "MemFree", "MemAvailable"):
                found[name] = int(rest.split()[0]) << 10
                if len(found) == 3:
                    return Meminfo(found["MemTotal"], found["MemFree"], found["MemAvailable"])
    raise ValueError(f"{path} has no MemTotal, MemFree and MemAvailable")
