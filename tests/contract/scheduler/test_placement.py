# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where a real kube-scheduler puts pods with the role's configuration and the deployed extender, and what it does when
the extender is gone, hangs or is late."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient, api_path
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    binary,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import (
    Program,
    SchedulerProcess,
    admin_file,
)
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.extender_process import (
    ExtenderProcess,
    rendered,
    scheduler_with,
)
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.node_double import make_node
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.prometheus_double import (
    PrometheusDouble,
    prometheus_double,
)
from ansible_collections.colocation.kubernetes.tests.role_rendering import Rendered

NODES = [f"n{number}" for number in range(6)]
MEMORY, CPU = "mem-real-usage-scheduler", "cpu-real-usage-scheduler"
TIMEOUT = 0.2  # scheduler_extender_timeout
ATTEMPTS = r'^scheduler_scheduling_attempt_duration_seconds_{}{{[^}}]*result="scheduled"[^}}]*}} (\S+)'


class Scheduling:
    """Nodes, their use, and pods that are placed."""

    def __init__(
        self, api: KubeClient, prometheus: PrometheusDouble, extender: ExtenderProcess, scheduler: SchedulerProcess
    ) -> None:
        self.api = api
        self._scheduler = scheduler
        self.prometheus = prometheus
        self.extender = extender
        self._made = 0

    def use(self, memory: dict[str, float], cpu: dict[str, float] | None = None) -> None:
        """Nodes use that much, and the extender has noticed."""
        self.prometheus.set({**dict.fromkeys(NODES, 30.0), **memory}, {**dict.fromkeys(NODES, 30.0), **(cpu or {})})
        asked = len(self.prometheus.asked)
        wait_until("a whole round of queries", lambda: len(self.prometheus.asked) >= asked + 4, 30)

    def place(self, number: int, scheduler: str = MEMORY, limit: float = 60) -> Counter[str]:
        """Make pods; how many came to each node."""
        self._made += 1
        for index in range(number):
            make_pod(self.api, f"p{self._made}-{index}", str(self._made), "100Mi", schedulerName=scheduler)
        wait_until("all pods to be placed", lambda: self._bound().total() == number, limit)
        return self._bound()

    @contextmanager
    def requested(self, name: str) -> Iterator[None]:
        """A node of which nearly all memory is asked for: the default scores avoid it."""
        make_pod(self.api, "asks-for-all", "none", "56Gi", nodeName=name)
        try:
            yield
        finally:
            pod = api_path("api", "v1", "namespaces", "default", "pods", "asks-for-all")
            self.api.remove(pod, {"gracePeriodSeconds": 0})

    def seconds_of(self, number: int) -> float:
        """How long kube-scheduler took for each of so many pods, by its own clock."""
        before = self._attempts()
        self.place(number)
        wait_until("its counters", lambda: self._attempts()[1] - before[1] >= number, 30)
        seconds, pods = (now - then for now, then in zip(self._attempts(), before, strict=True))
        return seconds / pods

    def _attempts(self) -> tuple[float, float]:
        said = self._scheduler.get("/metrics")
        seconds, pods = (
            sum(float(one) for one in re.findall(ATTEMPTS.format(what), said, re.M)) for what in ("sum", "count")
        )
        return seconds, pods

    def _bound(self) -> Counter[str]:
        pods = self.api.items("/api/v1/pods", label_selector=f"batch={self._made}")
        return Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))


def make_pod(api: KubeClient, name: str, batch: str, memory: str, **spec: object) -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "50m", "memory": memory}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"batch": batch}},
        "spec": {"containers": [container], **spec},
    }
    api.post("/api/v1/namespaces/default/pods", pod)


@pytest.fixture(scope="module")
def account(api: KubeClient) -> None:
    """Pods want their namespace's account, which a controller would make."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    if api.find("/api/v1/namespaces/default/serviceaccounts/default") is None:
        api.post("/api/v1/namespaces/default/serviceaccounts", account)


@pytest.fixture(scope="module")
def scheduling(
    server: ApiServer, api: KubeClient, account: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduling]:
    for name in NODES:
        make_node(api, name)
    place = tmp_path_factory.mktemp("scheduling")
    with prometheus_double() as prometheus:
        prometheus.set(dict.fromkeys(NODES, 30.0))
        role = rendered(
            server,
            scheduler_prometheus=prometheus.address,
            scheduler_query_interval_seconds=1,
            scheduler_extender_config={"in_flight": {"hold_seconds": 2, "start_seconds": 2}},
        )
        extender = ExtenderProcess(server, place, role)
        scheduler = scheduler_with(server, place, role)
        try:
            extender.until_measured(len(NODES))
            scheduler.until_ready()
            yield Scheduling(api, prometheus, extender, scheduler)
        finally:
            scheduler.stop()
            extender.stop()


def test_pods_avoid_the_node_that_is_really_full(scheduling: Scheduling) -> None:
    """The seed's demonstration: all nodes look free by their requests, one is not."""
    scheduling.use({"n2": 96.0})
    placed = scheduling.place(30)
    assert placed["n2"] == 0
    assert min(placed[name] for name in NODES if name != "n2") >= 3, "in-flight pods count, so no node gets all"


def test_they_go_where_memory_is_left_and_those_of_the_other_profile_where_processors_are(
    scheduling: Scheduling,
) -> None:
    memory = dict.fromkeys(NODES, 90.0) | {"n1": 20.0}
    cpu = dict.fromkeys(NODES, 90.0) | {"n4": 20.0}
    scheduling.use(memory, cpu)
    assert scheduling.place(5) == {"n1": 5}
    assert scheduling.place(5, CPU) == {"n4": 5}


def test_a_dead_extender_costs_nothing_and_the_default_scores_choose(scheduling: Scheduling) -> None:
    scheduling.use({})
    scheduling.extender.signal(signal.SIGKILL)
    scheduling.extender.stop()
    try:
        took = min(scheduling.seconds_of(3) for _time in range(3))  # the machine may do something else too
        with scheduling.requested("n5"):
            placed = scheduling.place(40)
    finally:
        scheduling.extender.start()
    assert took < TIMEOUT / 2
    assert placed["n5"] == 0, "these are scores, not chance"
    scheduling.extender.until_measured(len(NODES))
    scheduling.use({"n3": 97.0})
    assert scheduling.place(10)["n3"] == 0, "it is asked again without a restart of kube-scheduler"


def test_one_that_hangs_costs_a_timeout_for_each_pod_and_the_default_scores_choose(scheduling: Scheduling) -> None:
    scheduling.extender.signal(signal.SIGSTOP)
    try:
        took = scheduling.seconds_of(10)
        with scheduling.requested("n5"):
            placed = scheduling.place(20)
    finally:
        scheduling.extender.signal(signal.SIGCONT)
    assert TIMEOUT * 0.9 < took < TIMEOUT * 3
    assert placed["n5"] == 0
    scheduling.use({"n0": 97.0})
    assert scheduling.place(10)["n0"] == 0


def test_one_that_is_late_costs_no_more_and_says_so(scheduling: Scheduling) -> None:
    """It has a twentieth of its time, so most requests are over when it comes to them."""
    before = counts(scheduling)
    over = threading.Event()

    def stutter() -> None:
        while not over.is_set():
            scheduling.extender.signal(signal.SIGSTOP)
            over.wait(1.0)
            scheduling.extender.signal(signal.SIGCONT)
            over.wait(0.05)

    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        took = scheduling.seconds_of(20)
    finally:
        over.set()
        thread.join()
    assert took < TIMEOUT * 3
    wait_until("it to tell", lambda: all(now > then for now, then in zip(counts(scheduling), before, strict=True)), 30)
    scheduling.use({"n0": 97.0})
    assert scheduling.place(10)["n0"] == 0


def test_a_burst_stops_at_the_filters_threshold(scheduling: Scheduling, server: ApiServer, tmp_path: Path) -> None:
    """With one node left kube-scheduler asks for no scores; five pods of nearly 1 % come up to 90 % there."""
    api, names, pods = scheduling.api, ("full", "filling"), 60
    programs: list[Program] = []
    for name in names:
        make_node(api, name, labels={"guarded": "yes"})
    with prometheus_double() as prometheus:
        prometheus.set(dict.fromkeys(NODES, 30.0) | {"full": 95.0, "filling": 85.0})
        role = rendered(
            server,
            scheduler_prometheus=prometheus.address,
            scheduler_query_interval_seconds=1,
            scheduler_profiles={"guarded": {"filter": {"memory": 0.9}}},
            scheduler_extender_filter=True,
        )
        try:
            extender = ExtenderProcess(server, tmp_path, role)
            programs.append(extender)
            extender.until_measured(len(NODES) + len(names))
            for index in range(pods):
                chosen = {"schedulerName": "guarded", "nodeSelector": {"guarded": "yes"}}
                make_pod(api, f"guarded-{index}", "guarded", "640Mi", **chosen)
            programs.append(scheduler_with(server, tmp_path, role, "guarded"))
            wait_until("every pod to be tried", lambda: len(said_of(api, "guarded")) == pods, 60, programs[1].last)
            said = Counter(said_of(api, "guarded"))
        finally:
            for program in programs:
                program.stop()
            for name in names:
                api.remove(api_path("api", "v1", "nodes", name))
    assert said.pop("") == 5, said
    assert all("memory would be used to 91%, more than 90%" in why for why in said), said


def said_of(api: KubeClient, batch: str) -> list[str]:
    """Why pods can't be scheduled, of those that were tried; nothing where one is."""
    conditions = (
        condition
        for pod in api.items("/api/v1/pods", label_selector=f"batch={batch}")
        for condition in pod["status"].get("conditions", [])
    )
    return [condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"]


def counts(scheduling: Scheduling) -> list[float]:
    """Requests that it came to too late, and pods that were bound without it."""
    said = scheduling.extender.get("/metrics")
    return [
        sum(map(float, re.findall(rf"^colocation_scheduler_{what} (\S+)", said, re.M)))
        for what in (r'requests_total{verb="none",code="499"}', r'bound_total{asked="no"}')
    ]


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"scheduler_default_scores": {}},
        {"scheduler_extender_filter": True, "scheduler_profiles": {"one": {}}, "scheduler_mode": "hostpath"},
    ],
)
def test_kube_scheduler_takes_the_configuration(
    server: ApiServer, tmp_path: Path, minor: str, said: dict[str, object]
) -> None:
    done = write_config(rendered(server, **said), server, tmp_path, minor)
    assert done.returncode == 0, done.stderr
    assert "nodeCacheCapable: true" in (tmp_path / "written.yaml").read_text()


def test_and_refuses_a_bad_one(server: ApiServer, tmp_path: Path) -> None:
    done = write_config(rendered(server, scheduler_default_scores={"Nonsense": 1}), server, tmp_path)
    assert done.returncode != 0
    assert "Nonsense" in done.stderr


def write_config(
    role: Rendered, server: ApiServer, place: Path, minor: str = KUBERNETES_MINORS[0]
) -> subprocess.CompletedProcess[str]:
    """The command of the role's trial."""
    (place / "config.yaml").write_text(role["__scheduler_config_yaml"])
    return subprocess.run(
        [
            str(binary(kubernetes(minor), "kube-scheduler")), f"--config={place}/config.yaml",
            f"--authentication-kubeconfig={admin_file(server)}", f"--authorization-kubeconfig={admin_file(server)}",
            "--secure-port=0", f"--write-config-to={place}/written.yaml",
        ],
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
