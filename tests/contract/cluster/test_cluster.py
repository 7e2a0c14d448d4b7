# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The cluster that all other tests stand on: is it a real one?

Two nodes with the shapes that matter, handed out from their saved state.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cluster import Cluster
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.reach import inventory
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import ClusterError, wait_until
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.spec import ClusterSpec, parse_node

SPEC = ClusterSpec((parse_node("dhyana"), parse_node("cxl,disk=128M")))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster(f"contract-{os.getpid()}")
    found.up(SPEC, os.getpid())
    yield found
    found.down()


def run_pod(cluster: Cluster, name: str, node: str, command: list[str]) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "colocation.test/workload:1", "imagePullPolicy": "Never", "command": command}
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))


def wait_pod(cluster: Cluster, name: str) -> None:
    cluster.control_plane().kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s", limit=130)


def test_nodes_are_ready_and_of_the_right_kind(cluster: Cluster) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["worker1", "worker2"]
    for node in nodes:
        assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36.")
    assert cluster.ssh("worker1", "stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"


def test_topologies(cluster: Cluster) -> None:
    caches = cluster.ssh("worker1", "cat /sys/devices/system/cpu/cpu*/cache/index3/id").split()
    assert (len(caches), set(caches)) == (8, {"0", "1", "2", "3"})
    numa = "cat /sys/devices/system/node/node*/cpulist"
    assert cluster.ssh("worker1", numa).splitlines() == ["0-3", "4-7"]
    assert cluster.ssh("worker2", numa).splitlines() == ["0-3", ""]  # the second has memory only
    far = cluster.ssh("worker2", "cat /sys/devices/system/node/node1/meminfo")
    assert int(re.findall(r"MemTotal: +(\d+)", far)[0]) > 1_800_000
    assert cluster.ssh("worker2", "lsblk -bno SIZE /dev/vdb").strip() == str(128 << 20)


def test_the_guests_clock_is_right(cluster: Cluster) -> None:
    assert abs(float(cluster.ssh("worker1", "date +%s")) - time.time()) < 10


def test_pods_services_logs_and_exec(cluster: Cluster) -> None:
    run_pod(cluster, "server", "worker1", ["sh", "-c", "echo hello; exec httpd -f -p 8080 -h /etc"])
    run_pod(cluster, "client", "worker2", ["sleep", "100000"])
    for name in ("server", "client"):
        wait_pod(cluster, name)
    assert cluster.kubectl("logs", "server").strip() == "hello"
    address = cluster.kubectl("get", "pod", "server", "-o", "jsonpath={.status.podIP}")
    fetch = ["exec", "client", "--", "wget", "-q", "-T", "10", "-O", "-"]
    assert "root" in cluster.kubectl(*fetch, f"http://{address}:8080/passwd")  # over nodes
    cluster.kubectl("expose", "pod", "server", "--port=80", "--target-port=8080")
    service = cluster.kubectl("get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")

    def answers() -> bool:
        try:
            return "root" in cluster.kubectl(*fetch, f"http://{service}/passwd")
        except ClusterError:
            return False

    wait_until(f"the Service {service}", answers, 60)


def test_the_inventory_reaches_the_nodes(cluster: Cluster) -> None:
    groups = inventory(cluster)["all"]["children"]
    assert sorted(groups["kube_node"]["hosts"]) == ["worker1", "worker2"]
    assert groups["kube_node"]["hosts"]["worker2"]["ansible_host"] == "10.77.0.12"


def test_an_error_names_what_there_is(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no node worker9; it has worker1, worker2"):
        cluster.ssh("worker9", "true")
    with pytest.raises(ClusterError, match="there is no cluster nothing-here"):
        Cluster("nothing-here").kubectl("get", "nodes")
