# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent's side of reclaim and limits: one object that lives as long as the agent, whatever the configuration says.

guard.configure(resource, config.reclaim, config.kubernetes)     # None instead of a resource: nothing to guard
guard.tick(memory.snapshot, now, alive)                          # each round
memory.withdrawn = guard.withdrawn
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from colocation.common.kube_api import KubeApi, kubeconfig
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.common.status import Cell, Table
from colocation.device_plugin.limits import limits
from colocation.device_plugin.limits_keeper import Keeper
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_snapshot import Holder, MemorySnapshot
from colocation.device_plugin.reclaim_config import Kubernetes, Reclaim
from colocation.device_plugin.reclaim_loop import Reclaimer
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.device_plugin.reclaim_view import Holding, PodHolding, Snapshot
from colocation.device_plugin.reclaim_work import Identities

API_SECONDS = 5.0
ONE_TRY = Backoff(tries=1)  # whoever is evicted is chosen anew in the next round, from what is true then

Wanted = tuple[str, str, Reclaim, Kubernetes]


class Guard:
    """`configure`, `tick` and `stop` are called from one thread, the rest from any."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = ReclaimMetrics(registry)
        self._keeper = Keeper(registry)
        self._wanted: Wanted | None = None
        self._reclaimer: Reclaimer | None = None

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
        self.stop()
        self._wanted = wanted
        if wanted and config.enabled:
            files = (f"{wanted[1]}/meminfo", f"{wanted[1]}/pressure/memory")
            self._reclaimer = Reclaimer(config, identities(config, kubernetes), self._metrics, *files)

    def tick(self, snapshot: MemorySnapshot, now: float, alive: Callable[[], None] = lambda: None) -> None:
        """Bring what is known now, and hold the pods to their blocks."""
        if self._wanted is None:
            return
        resource, _proc, config, _kubernetes = self._wanted
        seen, reclaimer = view(snapshot, resource), self._reclaimer
        if reclaimer:
            reclaimer.tick(now, seen)
        others = {pod.uid: reclaimer.others(pod.uid) for pod in seen.pods} if reclaimer else {}
        self._keeper.keep(limits(seen.pods, seen.block_bytes, others) if config.enforce else (), now, alive)

    def stop(self) -> None:
        reclaimer, self._reclaimer = self._reclaimer, None
        if reclaimer:
            reclaimer.stop()

    @property
    def problems(self) -> tuple[str, ...]:
        reclaimer = self._reclaimer
        return (*self._keeper.problems, *(reclaimer.problems if reclaimer else ()))

    @property
    def facts(self) -> tuple[tuple[str, Cell], ...]:
        reclaimer = self._reclaimer
        return reclaimer.facts if reclaimer else ()

    @property
    def tables(self) -> tuple[Table, ...]:
        reclaimer = self._reclaimer
        return (reclaimer.table,) if reclaimer else ()


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
        snapshot.allocated,
        tuple(_pod(holders) for holders in pods.values()),
    )


def _pod(holders: list[Holder]) -> PodHolding:
    first = max(holders, key=lambda holder: bool(holder.pod))
    parts = tuple(Holding(holder.container, holder.blocks) for holder in holders)
    return PodHolding(first.namespace, first.pod, first.uid, first.cgroup, parts)
