# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent's side of reclaim and limits: one object that lives as long as the agent, whatever the configuration says.

guard.configure(resource, config.reclaim, config.kubernetes)     # None instead of a resource: nothing to guard
guard.tick(memory.snapshot, now, alive)                          # each round
memory.withdrawn = guard.withdrawn
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

from colocation.common.kube_api import KubeApi, kubeconfig
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.common.status import Cell, Table
from colocation.device_plugin.evict import Answer
from colocation.device_plugin.limits import limits
from colocation.device_plugin.limits_keeper import Keeper, container_limits
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_snapshot import Holder, MemorySnapshot
from colocation.device_plugin.reclaim_config import Kubernetes, Reclaim
from colocation.device_plugin.reclaim_loop import Reclaimer
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.device_plugin.reclaim_pods import UNKNOWN
from colocation.device_plugin.reclaim_view import Holding, PodHolding, Snapshot
from colocation.device_plugin.reclaim_work import NOTHING, Identities, Job, Worker

API_SECONDS = 5.0
ONE_TRY = Backoff(tries=1)  # whoever is evicted is chosen anew in the next round, from what is true then

LATE_SECONDS = 300.0  # after these it is told that something is not known yet; a kubelet settles for 120
TOLD = 3  # pods that are told by name

Wanted = tuple[str, str, Reclaim, Kubernetes]


class Late:
    """For whom something has been so for too long. Used from one thread, but for `names`."""

    def __init__(self) -> None:
        self.names = ""
        self._since: dict[str, float] = {}

    def look(self, names: Iterable[str], now: float) -> None:
        self._since = {name: self._since.get(name, now) for name in names}
        late = sorted(name for name, since in self._since.items() if now - since >= LATE_SECONDS)
        more = len(late) - TOLD
        self.names = ", ".join(late[:TOLD]) + (f" and {more} more" if more > 0 else "")


class Guard:
    """`configure`, `tick` and `stop` are called from one thread, the rest from any."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = ReclaimMetrics(registry)
        self._keeper = Keeper(registry)
        self._wanted: Wanted | None = None
        self._reclaimer: Reclaimer | None = None
        self._worker: Worker | None = None  # the reclaimer's, or one that only asks
        self._asks = False
        self._unknown, self._homeless = Late(), Late()

    @property
    def withdrawn(self) -> frozenset[str]:
        """Blocks that may not be offered."""
        reclaimer = self._reclaimer
        return reclaimer.withdrawn if reclaimer else frozenset()

    def configure(self, offered: Mapping[str, Memory], config: Reclaim, kubernetes: Kubernetes) -> None:
        """Begin anew where something changed. Of the memory on offer there is one resource at most."""
        found = ((resource, memory.proc, config, kubernetes) for resource, memory in offered.items())
        wanted = next(found, None)
        if wanted == self._wanted:
            return
        same = wanted and self._wanted and wanted[0] == self._wanted[0]
        known = self._worker.known if self._worker and same else NOTHING
        self.stop()
        self._wanted = wanted
        if wanted is None:
            return
        who = identities(config, kubernetes)
        self._asks = who.api is not None
        if config.enabled:
            files = (f"{wanted[1]}/meminfo", f"{wanted[1]}/pressure/memory")
            self._reclaimer = Reclaimer(config, who, self._metrics, *files, known=known)
            self._worker = self._reclaimer.worker
        elif config.enforce:
            self._worker = Worker(who, _nothing_to_do, lambda: 0, known=known)

    def tick(self, snapshot: MemorySnapshot, now: float, alive: Callable[[], None] = lambda: None) -> None:
        """Bring what is known now, and hold the pods to their blocks."""
        if self._wanted is None:
            return
        resource, _proc, config, _kubernetes = self._wanted
        seen, reclaimer, worker = view(snapshot, resource), self._reclaimer, self._worker
        if reclaimer:
            reclaimer.tick(now, seen)
        elif worker:
            worker.know(seen.pods, seen.resource, False)
        facts = {pod.uid: worker.facts(pod.uid) for pod in seen.pods} if worker else {}
        others = {uid: fact.others for uid, fact in facts.items() if fact is not UNKNOWN}
        wanted = limits(seen.pods, seen.block_bytes, others, container_limits) if config.enforce else ()
        self._keeper.keep(wanted, now, alive)
        unknown = (pod for pod in seen.pods if worker and self._asks and pod.uid not in others)
        self._unknown.look((f"{pod.namespace}/{pod.name}" if pod.name else pod.uid for pod in unknown), now)
        self._homeless.look((holder.name for holder in snapshot.holders if not holder.cgroup), now)

    def stop(self) -> None:
        reclaimer, self._reclaimer = self._reclaimer, None
        worker, self._worker = self._worker, None
        if reclaimer:
            reclaimer.stop()
        elif worker:
            worker.stop()

    @property
    def problems(self) -> tuple[str, ...]:
        reclaimer, worker = self._reclaimer, self._worker
        found = [*self._keeper.problems, *(reclaimer.problems if reclaimer else ())]
        if worker and (names := self._unknown.names):
            why = worker.problem or "it has no such pod, or the kubelet does not name it"
            effect = "so their limits may be too high and their priorities count as 0"
            found.append(f"the API did not tell of {names}, {effect}: {why}")
        if names := self._homeless.names:
            found.append(f"{names} hold blocks and have no control group, so they are not limited and count as online")
        return tuple(found)

    @property
    def facts(self) -> tuple[tuple[str, Cell], ...]:
        reclaimer, worker = self._reclaimer, self._worker
        if reclaimer:
            return reclaimer.facts
        return (("the API is asked", worker.problem or "with success"),) if worker else ()

    @property
    def tables(self) -> tuple[Table, ...]:
        reclaimer = self._reclaimer
        return (reclaimer.table,) if reclaimer else ()


def _nothing_to_do(_job: Job, _answer: Answer) -> None:
    """Without reclaim there are no jobs."""


def identities(config: Reclaim, kubernetes: Kubernetes) -> Identities:
    """With whom the API is asked, as the configuration says."""
    node = kubernetes.node or socket.gethostname().lower()  # as the kubelet does

    def asking(file: str) -> KubeApi | None:
        return KubeApi(kubeconfig(file), API_SECONDS, ONE_TRY) if file else None

    return Identities(node, asking(kubernetes.kubeconfig), asking(config.migrate.kubeconfig))


def view(snapshot: MemorySnapshot, resource: str) -> Snapshot:
    """The snapshot by pod. Of whom only the name is known yet, nothing can be done to him yet."""
    pods: dict[str, list[Holder]] = {}
    for holder in snapshot.holders:
        if holder.uid:
            pods.setdefault(holder.uid, []).append(holder)
    return Snapshot(
        resource,
        snapshot.unit,
        snapshot.target,
        snapshot.fits,
        snapshot.allocated,
        tuple(_pod(holders) for holders in pods.values()),
    )


def _pod(holders: list[Holder]) -> PodHolding:
    first = max(holders, key=lambda holder: bool(holder.pod))
    parts = tuple(Holding(holder.container, holder.blocks) for holder in holders)
    return PodHolding(first.namespace, first.pod, first.uid, first.cgroup, parts)
