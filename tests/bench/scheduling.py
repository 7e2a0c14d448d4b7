# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""scheduling: pods a second of a real kube-scheduler with our profile and the extender, against its default plugins
without, on 1,000 fake nodes.

The queue is filled before the scheduler starts, and what counts is the time from its first binding to its last. Each
run has an extender of its own, the default plugins none. Kinds alternate; the best run of each is compared, since
whatever else this machine does only makes a run slower.
COLOCATION_BENCH_NODES asks for another number of nodes.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
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
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.node_double import make_node
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.prometheus_double import prometheus_double
from ansible_collections.colocation.kubernetes.tests.role_rendering import Rendered

NODES = int(os.environ.get("COLOCATION_BENCH_NODES", "1000"))
PODS = "/api/v1/namespaces/default/pods"
OURS = "mem-real-usage-scheduler"
LIMIT = 300.0
ROUNDS = 3
SCHEDULED = re.compile(r'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', re.M)
DEFAULT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: {qps}, burst: {burst}}}
"""


class Scene:
    """A cluster of nodes that are nothing but objects, and schedulers one after the other."""

    def __init__(self, server: ApiServer, place: Path, api: KubeClient, prometheus: str) -> None:
        self.server = server
        self.place = place
        self.api = api
        self._prometheus = prometheus
        self._runs = 0

    def role(self, kind: str, qps: int) -> Rendered:
        """The role's variables for our default profile, or for the profile of the seed."""
        return rendered(
            self.server,
            scheduler_prometheus=self._prometheus,
            scheduler_client_qps=qps,
            scheduler_client_burst=2 * qps,
            **({"scheduler_default_scores": {}} if kind == "seed" else {}),
        )

    def pods_a_second(self, kind: str, qps: int, number: int) -> float:
        """One run: fill the queue, start a scheduler, look at its counter until all are placed."""
        self._runs += 1
        self._fill(number, "default-scheduler" if kind == "default" else OURS)
        place = self.place / f"run{self._runs}"
        place.mkdir()
        with contextlib.ExitStack() as ended:
            if kind == "default":
                configuration = DEFAULT.format(kubeconfig=admin_file(self.server), qps=qps, burst=2 * qps)
            else:
                role = self.role(kind, qps)
                configuration = str(role["__scheduler_config_yaml"])
                extender = ExtenderProcess(self.server, place, role)
                ended.callback(extender.stop)
                extender.until_measured(NODES)
            scheduler = SchedulerProcess(self.server, place, "scheduler", configuration)
            ended.callback(scheduler.stop)
            rate = self._rate(scheduler, number)
        self._clear()
        return rate

    def _rate(self, scheduler: SchedulerProcess, number: int) -> float:
        first: tuple[float, float] | None = None
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            placed = _placed(scheduler)
            now = time.monotonic()
            if placed and first is None:
                first = now, placed
            if first and placed >= number:
                return (placed - first[1]) / (now - first[0])
            time.sleep(0.1)
        raise SystemExit(f"not all pods were placed within {LIMIT:.0f} s:\n{scheduler.last()}")

    def _fill(self, number: int, scheduler: str) -> None:
        resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}

        def make(index: int) -> None:
            spec = {"schedulerName": scheduler, "containers": [{"name": "m", "image": "x", "resources": resources}]}
            metadata = {"name": f"r{self._runs}-{index}"}
            self.api.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(make, range(number)))

    def _clear(self) -> None:
        self.api.delete(PODS, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
        end = time.monotonic() + LIMIT
        while self.api.get(PODS, {"limit": "1"})["items"] and time.monotonic() < end:
            time.sleep(0.2)


def _placed(scheduler: SchedulerProcess) -> float:
    try:
        return sum(float(found) for found in SCHEDULED.findall(scheduler.get("/metrics")))
    except OSError:
        return 0.0


def prepare(api: KubeClient) -> list[str]:
    """An account for pods, and nodes; how they are called."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.post("/api/v1/namespaces/default/serviceaccounts", account)
    names = [f"node{number:05}" for number in range(NODES)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: make_node(api, name), names))
    return names


def compare(scene: Scene, kinds: list[str], qps: int, number: int, rounds: int) -> dict[str, float]:
    """The best rate of each kind."""
    best = dict.fromkeys(kinds, 0.0)
    for _round in range(rounds):
        for kind in kinds:
            best[kind] = max(best[kind], scene.pods_a_second(kind, qps, number))
    shown = ", ".join(f"{kind} {rate:.0f}" for kind, rate in best.items())
    print(f"{NODES} nodes, {number} pods, {qps} requests/s: pods/s {shown} (best of {rounds})", flush=True)
    return best


def measure(scene: Scene) -> tuple[float, float, float]:
    throttled = compare(scene, ["default", "ours"], 50, 500, 1)
    free = compare(scene, ["default", "ours", "seed"], 5000, 2000, ROUNDS)
    return (
        throttled["ours"] / throttled["default"],
        free["ours"] / free["default"],
        free["seed"] / free["default"],
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-scheduling-") as folder, prometheus_double() as prometheus:
        place = Path(folder)
        with ApiServer(place) as server, client(server) as api:
            names = prepare(api)
            prometheus.set({name: 20.0 + index % 50 for index, name in enumerate(names)})
            limited, free, seed = measure(Scene(server, place, api, prometheus.address))
    good = limited >= 0.95 and free >= 0.55 and seed >= 0.7
    print(
        f"scheduling: {limited:.2f} × the default plugins at default client limits, {free:.2f} × unthrottled, "
        f"{seed:.2f} × with the extender alone (target ≥ 0.95, ≥ 0.55, ≥ 0.7) {'PASS' if good else 'FAIL'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
