# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""burst: what `balance` simulates, by a real kube-scheduler, API server and extender: how even 1,000 nodes are after
3,000 pods, placed by our profile, by the same blind for pods in flight, by the default plugins, by least allocated
memory.

Nodes are objects only, with a pod that says what they promised before; Prometheus is a double whose values follow the
bindings with a lag of 0, 30 and 90 s. What is not asked for metrics does not depend on the lag and is run once.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import STRATEGIC_PATCH, KubeClient
from ansible_collections.colocation.kubernetes.tests.bench.scheduling import DEFAULT, LIMIT, OURS, PODS, prepare
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import (
    SchedulerProcess,
    admin_file,
    client,
)
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.extender_process import (
    ExtenderProcess,
    rendered,
)
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.prometheus_double import (
    PrometheusDouble,
    prometheus_double,
)
from colocation.common.kube_api import KubeApi, kubeconfig

BURST = "/api/v1/namespaces/burst/pods"
NUMBER = 3000
QPS = 100  # kube-scheduler's own limit, twice its default: the burst takes half a minute
LAGS = (0.0, 30.0, 90.0)
NODE_GIB = 64
STARTED = "2026-01-01T00:00:00Z"  # long before: nothing of it is in flight
LEAST = """\
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated, resources: [{name: memory, weight: 1}]}}
"""
Figures = tuple[float, float]  # the hottest node's use and the standard deviation, as shares


@dataclass(slots=True)
class Truth:
    """What nodes use, and how much of it the metrics show."""

    base: dict[str, float]  # gibibytes
    uses: dict[str, float]  # of each pod that is to come
    lag: float
    bound: dict[str, tuple[float, str]] = field(default_factory=dict)  # when and where each pod was

    def binds(self, pod: str, node: str, now: float) -> None:
        self.bound.setdefault(pod, (now, node))

    def shares(self, until: float) -> dict[str, float]:
        """Of each node's memory, with the pods that were bound by then."""
        used = dict(self.base)
        for pod, (when, node) in list(self.bound.items()):
            if when <= until:
                used[node] += self.uses[pod]
        return {name: use / NODE_GIB for name, use in used.items()}


class Scene:
    """A cluster that promised something before, and bursts one after the other."""

    def __init__(self, server: ApiServer, place: Path, api: KubeClient, names: list[str]) -> None:
        self.server = server
        self._place = place
        self._api = api
        self._runs = 0
        chance = random.Random(7)
        self._base = {name: chance.uniform(6, 26) for name in names}
        asked = {name: chance.uniform(10, 40) for name in names}
        api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "burst"}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        api.post("/api/v1/namespaces/burst/serviceaccounts", account)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self._promise(name, asked[name]), names))

    def burst(self, kind: str, lag: float, prometheus: PrometheusDouble) -> Figures:
        """One run."""
        self._runs += 1
        place = self._place / f"run{self._runs}"
        place.mkdir()
        chance = random.Random(11)  # the same pods in each run
        asks = {f"burst{self._runs}-{number}": chance.choice((0.5, 1.0, 2.0)) for number in range(NUMBER)}
        truth = Truth(self._base, {name: ask * chance.uniform(0.6, 1.2) for name, ask in asks.items()}, lag)
        ours = kind in ("ours", "lag-blind")
        with contextlib.ExitStack() as ended:
            follower = Follower(self.server, truth, prometheus)
            ended.callback(follower.stop)
            self._create(asks, OURS if ours else "default-scheduler")
            configuration = DEFAULT.format(kubeconfig=admin_file(self.server), qps=QPS, burst=2 * QPS)
            configuration += LEAST if kind == "least-allocated" else ""
            if ours:
                role = rendered(
                    self.server,
                    scheduler_prometheus=prometheus.address,
                    scheduler_client_qps=QPS,
                    scheduler_client_burst=2 * QPS,
                    scheduler_extender_config={"in_flight": {"enabled": kind == "ours"}},
                )
                configuration = role["__scheduler_config_yaml"]
                extender = ExtenderProcess(self.server, place, role)
                ended.callback(extender.stop)
                extender.until_measured(len(self._base))
            scheduler = SchedulerProcess(self.server, place, "scheduler", configuration)
            ended.callback(scheduler.stop)
            follower.until(NUMBER, scheduler)
        self._clear(asks)
        shares = truth.shares(float("inf")).values()
        return max(shares), statistics.pstdev(shares)

    def _promise(self, node: str, memory: float) -> None:
        name = f"before-{node}"
        self._api.post(PODS, document(name, memory, {"nodeName": node}))
        status = {"status": {"phase": "Running", "startTime": STARTED}}
        self._api.patch(f"{PODS}/{name}/status", status, STRATEGIC_PATCH)

    def _create(self, asks: dict[str, float], scheduler: str) -> None:
        def make(name: str) -> None:
            self._api.post(BURST, document(name, asks[name], {"schedulerName": scheduler}))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(make, asks))

    def _clear(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self._api.remove(f"{BURST}/{name}", {"gracePeriodSeconds": 0}), names))


def document(name: str, memory: float, spec: dict[str, Any]) -> dict[str, Any]:
    resources = {"requests": {"cpu": "10m", "memory": str(int(memory * (1 << 30)))}}
    containers = [{"name": "m", "image": "x", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


class Follower:
    """Sees bindings, and has Prometheus show them when the lag is over."""

    def __init__(self, server: ApiServer, truth: Truth, prometheus: PrometheusDouble) -> None:
        self._truth = truth
        self._prometheus = prometheus
        self._stopped = threading.Event()
        self._api = KubeApi(kubeconfig(str(admin_file(server))))
        self._version = str(self._api.get(BURST, limit="1")["metadata"]["resourceVersion"])
        self._show()
        self._threads = [threading.Thread(target=part, daemon=True) for part in (self._watch, self._show_on)]
        for thread in self._threads:
            thread.start()

    def until(self, number: int, scheduler: SchedulerProcess) -> None:
        end = time.monotonic() + LIMIT
        while len(self._truth.bound) < number:
            if time.monotonic() > end:
                raise SystemExit(f"{len(self._truth.bound)} of {number} pods were placed:\n{scheduler.last()}")
            time.sleep(0.2)

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        for event in self._api.watch(BURST, self._version, int(2 * LIMIT), fieldSelector="spec.nodeName!="):
            if self._stopped.is_set():
                return
            if event.kind != "BOOKMARK":
                pod = event.object
                self._truth.binds(pod["metadata"]["name"], pod["spec"]["nodeName"], time.monotonic())

    def _show_on(self) -> None:
        while not self._stopped.wait(1.0):
            self._show()

    def _show(self) -> None:
        shares = self._truth.shares(time.monotonic() - self._truth.lag)
        self._prometheus.set({name: 100 * share for name, share in shares.items()})


def main() -> int:
    found: dict[tuple[str, float], Figures] = {}
    with tempfile.TemporaryDirectory(prefix="bench-burst-") as folder, prometheus_double() as prometheus:
        place = Path(folder)
        with ApiServer(place) as server, client(server) as api:
            scene = Scene(server, place, api, prepare(api))
            print(f"{'lag':>5}  {'by':16} {'hottest':>8} {'deviation':>10}")
            runs = [(kind, lag) for lag in LAGS for kind in ("ours", "lag-blind")]
            for kind, lag in [("default", 0.0), ("least-allocated", 0.0), *runs]:
                hottest, deviation = found[kind, lag] = scene.burst(kind, lag, prometheus)
                shown = f"{lag:4.0f}s" if (kind, lag) in runs else "  any"
                print(f"{shown}  {kind:16} {hottest:8.1%} {deviation:10.2%}", flush=True)
    return verdict(found)


def verdict(found: dict[tuple[str, float], Figures]) -> int:
    """Ours must be the best at each lag, by both figures."""
    best, worst = True, 0.0
    for lag in LAGS:
        ours = found["ours", lag]
        others = [found["lag-blind", lag], found["default", 0.0], found["least-allocated", 0.0]]
        best &= all(ours[figure] < other[figure] for other in others for figure in (0, 1))
        worst = max(worst, ours[1] / min(other[1] for other in others))
    print(
        f"burst: deviation at most {worst:.2f} × the next best's (target hottest node and deviation the least at each "
        f"lag) {'PASS' if best else 'FAIL'}"
    )
    return 0 if best else 1


if __name__ == "__main__":
    sys.exit(main())
