# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The slow hand of the reclaim: what asks the API, or has the kernel drop page cache, in a thread of its own.

So an API that does not answer keeps nobody from looking at the memory, and no pod from being killed where that must be.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from colocation.common.journal import Log
from colocation.common.kube_api import ApiError, KubeApi
from colocation.device_plugin import evict, migrate_look, reclaim_cgroup, reclaim_events
from colocation.device_plugin.evict import Answer, Said
from colocation.device_plugin.migrate import Room
from colocation.device_plugin.reclaim import Action, Rung
from colocation.device_plugin.reclaim_pods import UNKNOWN, PodFacts, facts
from colocation.device_plugin.reclaim_view import PodHolding

REFRESH_SECONDS = 60.0  # what the API says of a pod: its priority may change, hardly anything else does
RETRY_SECONDS = 10.0
ROOMS_SECONDS = 10.0  # free blocks elsewhere
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
    offer: int  # blocks that the node offers without those of the pods that go
    resource: str


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


class Worker:
    """Takes jobs and wishes for knowledge; says what became of jobs to `done`, from its own thread."""

    def __init__(self, identities: Identities, done: Callable[[Job, Answer], None]) -> None:
        self.problem = ""
        self.rooms: tuple[Room, ...] = ()
        self._identities = identities
        self._done = done
        self._jobs: queue.Queue[Job | None] = queue.Queue(MOST_JOBS)
        self._known: dict[str, Known] = {}
        self._wanted: tuple[tuple[PodHolding, str], ...] = ()
        self._rooms_wanted = ""  # the resource
        self._rooms_at = self._asked_at = float("-inf")
        self._reporter = reclaim_events.Reporter(identities.api, identities.node) if identities.api else None
        self._thread = threading.Thread(target=self._run, name="reclaim-work", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Have it done when those before it are."""
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            self._done(job, Answer(Said.FAILED, "too much is waiting for the API"))

    def know(self, pods: tuple[PodHolding, ...], resource: str, rooms: bool) -> None:
        """Keep the facts of these pods, and the free blocks elsewhere if `rooms`."""
        self._wanted = tuple((pod, resource) for pod in pods)
        self._rooms_wanted = resource if rooms else ""

    def facts(self, uid: str) -> PodFacts:
        known = self._known.get(uid)
        return known.facts if known else UNKNOWN

    def stop(self, seconds: float = 3.0) -> None:
        """End after the job in hand; what waits is not done."""
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        self._jobs.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=0.5)
            except queue.Empty:
                self._safely(self._learn)
                continue
            if job is None:
                return
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
        if why := evict.offer(api, self._identities.node, job.resource, job.offer):
            log.warning("the node's status could not be patched", blocks=job.offer, why=why)
        return evict.evict(api, job.pod)

    def _report(self, reporter: reclaim_events.Reporter, job: Job, answer: Answer) -> None:
        pod, action = job.pod, job.action
        reason = REASONS[action.rung] if answer.said is not Said.REFUSED else "ColocationEvictionRefused"
        text = message(action, len(pod.blocks), answer)
        about = reclaim_events.About("Pod", pod.name, pod.uid, pod.namespace)
        node = reclaim_events.node(self._identities.node)
        when = datetime.datetime.now(datetime.timezone.utc)
        for one, words in ((about, text), (node, f"{pod.namespace}/{pod.name}: {text}")):
            if why := reporter.say(one, reason, words, when):
                log.warning("an event could not be written", about=one.name, reason=reason, why=why)
                return

    def _learn(self) -> None:
        """Ask for what is wanted and not known, or known for long."""
        now, api = time.monotonic(), self._identities.api
        wanted = self._wanted
        uids = {pod.uid for pod, _resource in wanted}
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}
        if now - self._asked_at >= RETRY_SECONDS or not self.problem:
            self.problem = ""
            for pod, resource in wanted if api else ():
                known = self._known.get(pod.uid)
                if (known is None or now - known.at >= REFRESH_SECONDS) and not self._ask(pod, resource, now):
                    self._asked_at = now
                    break
                if not self._jobs.empty():
                    return
        if self._rooms_wanted and self._identities.others and now - self._rooms_at >= ROOMS_SECONDS:
            self._rooms_at = now
            self._look(self._identities.others)

    def _ask(self, pod: PodHolding, resource: str, now: float) -> bool:
        """Whether the API answered."""
        assert self._identities.api is not None
        if not pod.name:
            return True  # only its UID is known yet
        known = Known(UNKNOWN, now - REFRESH_SECONDS + RETRY_SECONDS)  # a mirror pod may come late, a namesake go
        try:
            document = self._identities.api.get(evict.pod_path(pod))
            if document.get("metadata", {}).get("uid") == pod.uid:
                known = Known(facts(document, resource), now)
        except ApiError as problem:
            if problem.status != 404:
                self.problem = f"the API can't be asked for pods: {problem}"
                return False
        self._known = {**self._known, pod.uid: known}
        return True

    def _look(self, others: KubeApi) -> None:
        try:
            self.rooms = migrate_look.look(others, self._rooms_wanted, self._identities.node)
        except ApiError as problem:
            self.rooms = ()
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
