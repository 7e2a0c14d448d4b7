# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The slow hand of the reclaim: what asks the API, or has the kernel drop page cache, in a thread of its own.

So an API that does not answer keeps nobody from looking at the memory, and no pod from being killed where that must be.
What waited for it too long is not done any more: another look says whether it still has to be.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from colocation.common import events
from colocation.common.journal import Log
from colocation.common.kube_api import ApiError, KubeApi
from colocation.device_plugin import COMPONENT, evict, migrate_look, reclaim_cgroup
from colocation.device_plugin.evict import Answer, Said
from colocation.device_plugin.migrate import Room
from colocation.device_plugin.reclaim import Action, Rung
from colocation.device_plugin.reclaim_pods import UNKNOWN, PodFacts, facts, is_of
from colocation.device_plugin.reclaim_view import PodHolding

REFRESH_SECONDS = 60.0  # what the API says of a pod: its priority may change, hardly anything else does
RETRY_SECONDS = 10.0
ROOMS_SECONDS = 10.0  # free blocks elsewhere …
OLD_ROOMS_SECONDS = 30.0  # … which may be gone by then
MOST_JOBS = 1000
REASONS: Mapping[Rung, str] = MappingProxyType(
    {
        Rung.SQUEEZE: "ColocationPageCacheDropped",
        Rung.MIGRATE: "ColocationMigrated",
        Rung.EVICT: "ColocationEvicted",
        Rung.KILL: "ColocationKilled",
    }
)
log = Log("reclaim")


@dataclass(frozen=True, slots=True)
class Job:
    """An action on a pod; one whose rung is KILL was done already, and the pod is to be evicted too."""

    action: Action
    pod: PodHolding
    resource: str
    until: float  # later it is not done


@dataclass(frozen=True, slots=True)
class Identities:
    """With whom the API is asked; None where it is not."""

    node: str
    api: KubeApi | None = None
    others: KubeApi | None = None  # may see other nodes


@dataclass(frozen=True, slots=True)
class Known:
    """What the API said of a pod, and when."""

    facts: PodFacts
    at: float


NOTHING: Mapping[str, Known] = MappingProxyType({})


class Worker:
    """Takes jobs and wishes for knowledge; says what became of jobs to `done`, from its own thread."""

    def __init__(
        self,
        identities: Identities,
        done: Callable[[Job, Answer], None],
        offer: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        known: Mapping[str, Known] = NOTHING,
    ) -> None:
        self.problem = ""
        self._identities = identities
        self._done = done
        self._offer = offer  # blocks that the node offers without those of the pods that go
        self._clock = clock
        self.known = known  # by UID; another object for each change
        self._put = threading.Condition()
        self._jobs: dict[tuple[bool, str], Job] = {}  # what waits: squeezes apart, one of each for a pod
        self._stopping = False
        self._wanted: tuple[tuple[PodHolding, str], ...] | None = None
        self._rooms: tuple[Room, ...] = ()
        self._rooms_wanted = ""  # the resource
        self._rooms_at = self._asked_at = float("-inf")
        source = events.Source(COMPONENT, identities.node)
        self._reporter = events.Reporter(identities.api, source) if identities.api else None
        self._thread = threading.Thread(target=self._run, name="reclaim-work", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Have it done when those before it are; it takes the place of one that waits for the same pod."""
        key = (job.action.rung is Rung.SQUEEZE, job.pod.uid)
        with self._put:
            full = len(self._jobs) >= MOST_JOBS and key not in self._jobs
            if not full:
                self._jobs[key] = job
                self._put.notify()
        if full:
            self._done(job, Answer(Said.FAILED, "too much is waiting for the API"))

    @property
    def rooms(self) -> tuple[Room, ...]:
        """Free blocks of other nodes, unless that is long ago."""
        return self._rooms if self._clock() - self._rooms_at < OLD_ROOMS_SECONDS else ()

    def know(self, pods: tuple[PodHolding, ...], resource: str, rooms: bool) -> None:
        """Keep the facts of these pods, and the free blocks elsewhere if `rooms`."""
        self._wanted = tuple((pod, resource) for pod in pods)
        self._rooms_wanted = resource if rooms else ""

    def facts(self, uid: str) -> PodFacts:
        known = self.known.get(uid)
        return known.facts if known else UNKNOWN

    def stop(self, seconds: float = 3.0) -> None:
        """End after the job in hand; what waits is not done."""
        with self._put:
            self._stopping = True
            self._put.notify()
        self._thread.join(seconds)

    def _next(self) -> Job | None:
        """What is to be done now, if anything; dropping page cache may take seconds, so it comes last."""
        with self._put:
            self._put.wait_for(lambda: self._jobs or self._stopping, 0.5)
            if self._stopping or not self._jobs:
                return None
            return self._jobs.pop(min(self._jobs, key=lambda key: key[0]))

    def _run(self) -> None:
        while not self._stopping:
            job = self._next()
            if job is not None:
                self._finish(job)
            elif not self._stopping:
                self._safely(self._learn)

    def _finish(self, job: Job) -> None:
        answer = Answer(Said.FAILED, "the log says why")
        try:
            answer = self._do(job)
        except Exception:
            log.exception("a job failed", pod=f"{job.pod.namespace}/{job.pod.name}", rung=job.action.rung.value)
        self._done(job, answer)

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            log.exception("what the API knows could not be taken")

    def _do(self, job: Job) -> Answer:
        if self._clock() >= job.until:
            return Answer(Said.FAILED, "it waited for the API for too long")
        if job.action.rung is Rung.SQUEEZE:
            why = reclaim_cgroup.squeeze(job.pod.cgroup, job.action.amount)
            answer = Answer(Said.FAILED, why) if why else Answer(Said.DONE)
        else:
            answer = self._evict(job)
        done = answer.said is Said.DONE or job.action.rung is Rung.KILL
        if self._reporter and (done or answer.said is Said.REFUSED):
            self._report(self._reporter, job, answer)
        return answer

    def _evict(self, job: Job) -> Answer:
        """First less on offer, then the eviction; a node whose status can't be patched is told by the kubelet later."""
        api = self._identities.api
        if api is None:
            return Answer(Said.FAILED, "there is no kubeconfig to ask the API with")
        blocks = self._offer()
        if why := evict.offer(api, self._identities.node, job.resource, blocks):
            log.warning("the node's status could not be patched", blocks=blocks, why=why)
        return evict.evict(api, job.pod)

    def _report(self, reporter: events.Reporter, job: Job, answer: Answer) -> None:
        pod, action = job.pod, job.action
        reason = REASONS[action.rung] if answer.said is not Said.REFUSED else "ColocationEvictionRefused"
        text = message(action, len(pod.blocks), answer)
        about = events.About("Pod", pod.name, pod.uid, pod.namespace)
        node = events.node(self._identities.node)
        when = datetime.datetime.now(datetime.timezone.utc)
        for one, words in ((about, text), (node, f"{pod.namespace}/{pod.name}: {text}")):
            if why := reporter.say(one, reason, words, when):
                log.warning("an event could not be written", about=one.name, reason=reason, why=why)
                return

    def _learn(self) -> None:
        """Ask for what is wanted and not known, or known for long."""
        now, api = self._clock(), self._identities.api
        wanted = self._wanted
        if wanted is None:
            return  # nobody said yet whose facts are to be kept
        uids = {pod.uid for pod, _resource in wanted}
        self.known = {uid: known for uid, known in self.known.items() if uid in uids}
        if now - self._asked_at >= RETRY_SECONDS or not self.problem:
            self.problem = ""
            for pod, resource in wanted if api else ():
                known = self.known.get(pod.uid)
                if (known is None or now - known.at >= REFRESH_SECONDS) and not self._ask(pod, resource, now):
                    self._asked_at = now
                    break
                if self._jobs:
                    return
        if self._rooms_wanted and self._identities.others and now - self._rooms_at >= ROOMS_SECONDS:
            self._look(self._identities.others, now)

    def _ask(self, pod: PodHolding, resource: str, now: float) -> bool:
        """Whether the API answered."""
        assert self._identities.api is not None
        if not pod.name:
            return True  # only its UID is known yet
        known = Known(UNKNOWN, now - REFRESH_SECONDS + RETRY_SECONDS)  # a mirror pod may come late, a namesake go
        try:
            document = self._identities.api.get(evict.pod_path(pod))
            if is_of(document, pod.uid):
                known = Known(facts(document, resource), now)
        except ApiError as problem:
            if problem.status != 404:
                self.problem = f"the API can't be asked for pods: {problem}"
                return False
        self.known = {**self.known, pod.uid: known}
        return True

    def _look(self, others: KubeApi, now: float) -> None:
        try:
            found = migrate_look.look(others, self._rooms_wanted, self._identities.node, lambda: bool(self._jobs))
            if found or not self._jobs:
                self._rooms, self._rooms_at = found, now
        except ApiError as problem:
            self._rooms, self._rooms_at = (), now
            log.warning("free blocks of other nodes are not known, so nothing migrates", why=problem)


def message(action: Action, blocks: int, answer: Answer) -> str:
    """What an event says."""
    size = f"{action.amount / (1 << 20):.0f} MiB"
    what = {
        Rung.SQUEEZE: f"Dropped up to {size} of its page cache",
        Rung.MIGRATE: f"Evicted to free {size} ({blocks} blocks); {action.room_at} has blocks for it",
        Rung.EVICT: f"Evicted to free {size} ({blocks} blocks)",
        Rung.KILL: f"Killed to free {size} ({blocks} blocks) at once",
    }[action.rung]
    if answer.said is Said.REFUSED:
        what = f"A disruption budget refused the eviction that would free {size} ({blocks} blocks)"
    return f"{what}: {action.why}."
