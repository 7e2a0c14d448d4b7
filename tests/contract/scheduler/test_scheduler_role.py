# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role itself, by ansible-playbook, against a real control plane: its pods are processes with the pod's commands,
configuration and account, so what is tried, rolled out, put back and removed is the real thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.role_play import RolePlay
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import admin_file
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.node_double import NodeDouble
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.prometheus_double import (
    PrometheusDouble,
    prometheus_double,
)

NAME = "schedulingplugin-mem-usage"
SECRET = "/api/v1/namespaces/kube-system/secrets/kube-scheduler-mem-secret"
PORTS = [61259, 61463, 61464]


@pytest.fixture(scope="module")
def both(
    server: ApiServer, api: KubeClient, cluster: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RolePlay, PrometheusDouble]]:
    place = tmp_path_factory.mktemp("site")
    node = NodeDouble(server, api, "worker", place / "pods", PORTS)
    with prometheus_double() as prometheus:
        prometheus.set({"worker": 10.0})
        try:
            play = RolePlay(
                place,
                "scheduler",
                {
                    "scheduler_controller_kubeconfig": str(admin_file(server)),
                    "scheduler_port": PORTS[0],
                    "scheduler_status_port": PORTS[1],
                    "scheduler_extender_port": PORTS[2],
                    "scheduler_api_server": server.server,
                    "scheduler_prometheus": prometheus.address,
                    "scheduler_query_interval_seconds": 2,
                    "scheduler_timeout": 60,
                },
            )
            yield play, prometheus
        finally:
            node.close()


@pytest.fixture(scope="module")
def site(both: tuple[RolePlay, PrometheusDouble]) -> RolePlay:
    return both[0]


@pytest.fixture(scope="module")
def prometheus(both: tuple[RolePlay, PrometheusDouble]) -> PrometheusDouble:
    return both[1]


def standing(server: ApiServer) -> list[str]:
    """All that is ours in the cluster, by our labels or by our names."""
    kinds = "deploy,rs,pod,svc,pdb,secret,cm,sa,role,rolebinding,clusterrole,clusterrolebinding,lease"
    names = server.kubectl("get", kinds, "-A", "-o", "name").split()
    ours = ("mem-usage", "mem-secret", "system:kube-scheduler:plugins", "colocation")
    return [name for name in names if any(part in name for part in ours)]


def test_installed_placed_by_changed_refused_put_back_and_removed(
    site: RolePlay, prometheus: PrometheusDouble, server: ApiServer, api: KubeClient
) -> None:
    # Check mode foretells, and writes nothing.
    status, foretold, said = site("--check")
    assert (status, foretold) == (0, 1), said
    assert standing(server) == []
    status, changed, said = site()
    assert (status, changed) == (0, 1), said
    assert "PRIVATE KEY" not in said
    stood = sorted(standing(server))

    # A pod that names it is placed.
    container = {"name": "main", "image": "x", "command": ["python3", "-c", "import time; time.sleep(300)"]}
    spec = {"schedulerName": "mem-real-usage-scheduler", "containers": [container]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec}
    api.post("/api/v1/namespaces/default/pods", document)
    path = "/api/v1/namespaces/default/pods/asks"
    wait_until("the pod to be placed", lambda: api.get(path)["spec"].get("nodeName") == "worker", 30)
    api.remove(path)
    assert api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}")["spec"]["holderIdentity"]

    # Its account may do what it has to; a trial's may nothing.
    logs = [log for log in (site.place / "pods").glob("*/*.log") if "-trial" not in log.parent.name]
    assert len(logs) >= 4
    refused = [line for log in logs for line in log.read_text().splitlines() if "forbidden" in line.lower()]
    assert refused == []

    # While Prometheus is gone no replica is ready, each says so, and a drain may go on.
    prometheus.ill = True
    wait_until("no replica to be ready", lambda: not any(map(is_ready, pods(api))), 30)
    wait_until("both to tell", lambda: told(api) == {"ColocationMeasuringFailed": 2}, 30)
    dry = {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}
    for pod in pods(api):
        name = pod["metadata"]["name"]
        eviction = {**dry, "metadata": {"name": name, "namespace": "kube-system"}}
        api.post(f"/api/v1/namespaces/kube-system/pods/{name}/eviction", eviction)
    prometheus.ill = False
    wait_until("both to be ready", lambda: all(map(is_ready, pods(api))), 30)
    wait_until("both to tell that", lambda: told(api).get("ColocationMeasuringRecovered") == 2, 60)

    # A second run changes nothing.
    status, changed, said = site()
    assert (status, changed) == (0, 0), said

    # What is bad is found by the extender, by the trial, or by what does not get ready; what runs is not touched.
    good = api.get(SECRET)["data"]
    status, dummy, said = site(scheduler_profiles={"x": {"wieghts": {}}})
    assert status != 0
    assert "wieghts: unknown key" in said
    status, dummy, said = site(scheduler_default_scores={"Nonsense": 1})
    assert status != 0
    assert "The trial failed, so nothing was changed" in said
    status, dummy, said = site(scheduler_api_server="https://127.0.0.1:1", scheduler_timeout=12)
    assert status != 0
    assert "What stood before was put back and is ready" in said
    assert api.get(SECRET)["data"] == good
    assert sorted(name for name in standing(server) if "pod/" not in name and "replicaset" not in name) == sorted(
        name for name in stood if "pod/" not in name and "replicaset" not in name
    )

    # Another configuration is another pod.
    before = [pod["metadata"]["uid"] for pod in pods(api)]
    status, changed, said = site(scheduler_extender_weight=20)
    assert (status, changed) == (0, 1), said
    assert not set(before) & {pod["metadata"]["uid"] for pod in pods(api)}

    # With the kubelets asked there is an account more, and its rights.
    status, changed, said = site(scheduler_prometheus="", scheduler_timeout=0)
    assert (status, changed) == (0, 1), said
    assert len([name for name in standing(server) if name.endswith("kubelets")]) == 5

    # All goes, twice if need be.
    assert site("--check", entry="uninstall")[:2] == (0, 1)
    status, changed, said = site(entry="uninstall")
    assert (status, changed) == (0, 1), said
    assert standing(server) == []
    assert site(entry="uninstall")[:2] == (0, 0)


def pods(api: KubeClient) -> list[dict[str, Any]]:
    found = api.items("/api/v1/namespaces/kube-system/pods", label_selector=f"app.kubernetes.io/name={NAME}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def told(api: KubeClient) -> Counter[str]:
    """The extenders' Events on the pods that there are, by reason."""
    names = {pod["metadata"]["name"] for pod in pods(api)}
    events = api.items("/api/v1/namespaces/kube-system/events", field_selector="source=colocation-scheduler-extender")
    return Counter(one["reason"] for one in events if one["involvedObject"]["name"] in names)
