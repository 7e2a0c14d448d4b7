# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Two replicas with the role's configuration and a lease of their own: one schedules, and when it dies the other."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import (
    SchedulerProcess,
    admin_file,
)
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.extender_process import rendered
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.node_double import make_node

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
QUICK = {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}


def test_one_schedules_and_when_it_dies_the_other(
    server: ApiServer, api: KubeClient, cluster: Path, tmp_path: Path
) -> None:
    make_node(api, "n")
    said = {"clientConnection": {"kubeconfig": str(admin_file(server))}, "leaderElection": QUICK}
    role = rendered(server, scheduler_kube_scheduler_config=said)
    lease = f"{LEASES}/{role['scheduler_lease']}"

    def holder() -> str:
        return str(((api.find(lease) or {}).get("spec") or {}).get("holderIdentity") or "")

    def placed(name: str) -> bool:
        return bool(api.get(f"{PODS}/{name}")["spec"].get("nodeName"))

    with contextlib.ExitStack() as ended:
        one, other = (
            SchedulerProcess(server, tmp_path, name, role["__scheduler_config_yaml"]) for name in ("one", "other")
        )
        for replica in (one, other):
            ended.callback(replica.stop)
            replica.until_ready()
        wait_until("one to lead", lambda: bool(holder()), 60, one.last)
        make_pod(api, "first")
        wait_until("a pod to be placed", lambda: placed("first"), 60, one.last)
        leading = one if leads(one) else other
        assert leads(one) != leads(other), "exactly one leads"
        before = holder()
        leading.stop()
        wait_until("the other to lead", lambda: holder() not in ("", before), 60, other.last)
        make_pod(api, "second")
        wait_until("a pod to be placed by the other", lambda: placed("second"), 60, other.last)
    assert api.get(f"{LEASES}/kube-scheduler")["spec"]["holderIdentity"] not in ("", before, holder()), (
        "the cluster's own scheduler has its own lease, and keeps it"
    )


def leads(scheduler: SchedulerProcess) -> bool:
    return re.search(r"^leader_election_master_status\{[^}]*\} 1$", scheduler.get("/metrics"), re.M) is not None


def make_pod(api: KubeClient, name: str) -> None:
    spec = {"schedulerName": "mem-real-usage-scheduler", "containers": [{"name": "main", "image": "x"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    wait_until("the namespace's account", lambda: api.find(account) is not None, 30)
    api.post(PODS, document)
