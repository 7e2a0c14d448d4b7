# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The model with all that feeds it, for one configuration: two watches, a thread that measures, a lock.

Watches and measuring go on by themselves; requests only take the lock and ask the model.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from colocation.common.journal import Log
from colocation.common.kube_access import Access, from_pod
from colocation.common.kube_api import Document, KubeApi, kubeconfig
from colocation.common.watching import Kind, Listener, Watch
from colocation.scheduler.cluster import Cluster
from colocation.scheduler.config import Config, addresses
from colocation.scheduler.kubelet_token import AccountToken
from colocation.scheduler.kubelets import KubeletSource
from colocation.scheduler.metrics_api import MetricsApiSource
from colocation.scheduler.nodes import Node, read_node
from colocation.scheduler.pods import Pod, read_pod
from colocation.scheduler.prometheus import PrometheusSource
from colocation.scheduler.sources import Sampling, Source, SourceError

CHUNK = 50  # nodes for which the lock is held at a time
BREATH = 0.001  # seconds in which requests get the lock, which is not fair by itself
NODES = Kind("nodes", "/api/v1/nodes", 100)
PODS = Kind("pods", "/api/v1/pods", 500, "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
log = Log("engine")
T = TypeVar("T")


@dataclass(slots=True)
class Rounds:
    """How measuring goes."""

    good: int = 0
    failed: int = 0
    seconds: float = 0.0  # the last one took
    last_good: float | None = None  # when, by time.monotonic
    problem: str = ""
    remarks: tuple[str, ...] = ()
    useless: Mapping[int, str] = field(default_factory=dict)  # by resource, why nothing of it was taken
    nodes: int = 0  # with a value in the last good one


class Engine:
    """Make it, `start` it, `ask` it, `stop` it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self.rounds = Rounds()
        self._lock = threading.Lock()
        find_access = access_of(config)
        api = KubeApi(find_access)
        self.source = make_source(config, find_access, api)
        self.watches = (Watch(api, NODES, _NodeListener(self)), Watch(api, PODS, _PodListener(self)))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="measure", daemon=True)

    def start(self) -> None:
        for watch in self.watches:
            watch.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for watch in self.watches:
            watch.stop()

    def ask(self, question: Callable[[Cluster, float], T]) -> T:
        """Do something with the model; it is nobody else's meanwhile."""
        with self._lock:
            return question(self.cluster, time.monotonic())

    @property
    def synced(self) -> bool:
        return all(watch.health.synced for watch in self.watches)

    def problems(self) -> list[str]:
        """What a human should know."""
        found = [
            f"{watch.kind.name} can't be watched: {watch.health.problem}"
            for watch in self.watches
            if watch.health.problem
        ]
        found += [f"{watch.kind.name} are not listed yet" for watch in self.watches if not watch.health.synced]
        return [*found, *self._of_measuring()]

    def _of_measuring(self) -> Iterator[str]:
        rounds = self.rounds
        if rounds.problem:
            yield f"{self.source.name}: {rounds.problem}"
            return
        if rounds.last_good is None:
            yield f"{self.source.name}: nothing was measured yet"
            return
        yield from dict.fromkeys(why for resource, why in rounds.useless.items() if resource in self.cluster.weighted)
        if 2 * (fresh := self.fresh) < len(self.cluster.nodes):
            yield f"only {fresh} of {len(self.cluster.nodes)} nodes are judged by what was measured lately"
            yield from rounds.remarks

    @property
    def fresh(self) -> int:
        """Nodes of which each weighted resource was measured lately."""
        nodes = list(self.cluster.nodes.values())
        return sum(all(node.fresh[resource] for resource in self.cluster.weighted) for node in nodes)

    def _measure(self) -> None:
        while not self.watches[0].health.synced and not self._stopped.wait(0.05):
            pass  # there are no nodes to measure
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                self._round(self.source)
            except SourceError as problem:
                self._failed(str(problem))
            except Exception as problem:
                log.exception("a round of measuring failed")
                self._failed(repr(problem))
            self.rounds.seconds = time.monotonic() - began
            self._stopped.wait(max(began + self.config.queryMetricIntervalSeconds - time.monotonic(), 0.1))

    def _round(self, source: Source) -> None:
        nodes = self.ask(lambda cluster, _now: {name: node.node for name, node in cluster.nodes.items()})
        sampling = source.sample(nodes)
        self._take(sampling)
        if self.rounds.problem:
            log.info("measuring works again", source=source.name)
        told, said = (self.rounds.useless, self.rounds.remarks), (sampling.useless, sampling.problems)
        if said != told and any(said):
            problems = (*dict.fromkeys(sampling.useless.values()), *sampling.problems)
            log.warning("measured, but", problems="; ".join(problems))
        self.rounds.good += 1
        self.rounds.last_good = time.monotonic()
        self.rounds.nodes = len(sampling.nodes)
        self.rounds.problem, self.rounds.remarks, self.rounds.useless = "", sampling.problems, sampling.useless

    def _take(self, sampling: Sampling) -> None:
        found = list(sampling.nodes.items())
        for start in range(0, len(found), CHUNK):
            with self._lock:
                now = time.monotonic()
                for name, readings in found[start : start + CHUNK]:
                    self.cluster.measured(name, readings, now)
                self.cluster.refresh()
            time.sleep(BREATH)
        if sampling.pods:
            with self._lock:
                self.cluster.pods_measured(sampling.pods)

    def _failed(self, problem: str) -> None:
        self.rounds.failed += 1
        if not self.rounds.problem:
            log.warning("can't measure, trying again", source=self.source.name, error=problem)
        self.rounds.problem = problem


def access_of(config: Config) -> Callable[[], Access]:
    """How we come to the API."""
    return kubeconfig(config.kubeconfig) if config.kubeconfig else lambda: from_pod(os.environ)


def make_source(config: Config, find_access: Callable[[], Access], api: KubeApi) -> Source:
    """The source that the configuration names."""
    pods = config.in_flight.estimate == "learned"
    if config.chosen_source == "prometheus":
        where = addresses(config.prometheusApiAddr)
        return PrometheusSource(where, config.prometheus, config.queryMetricTimeSeconds, pods)
    if config.chosen_source == "metrics-api":
        return MetricsApiSource(api, pods)
    round_seconds = max(config.queryMetricIntervalSeconds, config.kubelets.timeout_seconds)
    account = AccountToken(api, config.kubelets.account) if config.kubelets.account else None
    return KubeletSource(find_access, config.kubelets, round_seconds, pods, account)


@dataclass(slots=True)
class _NodeListener(Listener):
    """Tells the model of nodes."""

    engine: Engine
    found: list[Node] = field(default_factory=list)

    def begins(self) -> None:
        self.found = []

    def page(self, documents: Sequence[Document]) -> None:
        self.found += map(read_node, documents)

    def listed(self) -> None:
        found, self.found = self.found, []
        self.engine.ask(lambda cluster, _now: cluster.nodes_are(found))

    def happened(self, kind: str, document: Document) -> None:
        node = read_node(document)
        if kind == "DELETED":
            self.engine.ask(lambda cluster, _now: cluster.node_gone(node.name))
        else:
            self.engine.ask(lambda cluster, _now: cluster.node_is(node))


@dataclass(slots=True)
class _PodListener(Listener):
    """Tells the model of pods that are on nodes and not finished; others leave the watch as if deleted."""

    engine: Engine
    found: list[Pod] = field(default_factory=list)

    def begins(self) -> None:
        self.found = []

    def page(self, documents: Sequence[Document]) -> None:
        resources, wall = self.engine.cluster.memory_resources, time.time()
        self.found += (read_pod(document, resources, wall) for document in documents)

    def listed(self) -> None:
        found, self.found = self.found, []
        self.engine.ask(lambda cluster, now: cluster.pods_are(found, now))

    def happened(self, kind: str, document: Document) -> None:
        pod = read_pod(document, self.engine.cluster.memory_resources)
        if kind == "DELETED":
            self.engine.ask(lambda cluster, _now: cluster.pod_gone(pod.uid))
        else:
            self.engine.ask(lambda cluster, now: cluster.pod_is(pod, now))
