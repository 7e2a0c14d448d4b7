# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The reclaim against a real API server, as the kubelet's identity: evictions, budgets, events, the node's status, and
what the declared rights of a migrator suffice for. The memory and the control groups are made up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_rights import migration_rules
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from colocation.common.kube_api import ApiError, KubeApi, kubeconfig
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.device_plugin import migrate_look
from colocation.device_plugin.evict import Said, evict
from colocation.device_plugin.reclaim_config import Reclaim
from colocation.device_plugin.reclaim_loop import Reclaimer
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.device_plugin.reclaim_view import Holding, PodHolding, Snapshot
from colocation.device_plugin.reclaim_work import Identities

BLOCKS = "test.com/colocation-memory"
SPACE = "reclaim"
OWN, OTHER, FULL = "reclaim-own", "reclaim-other", "reclaim-full"
MIB = 1 << 20


def create(server: ApiServer, document: dict[str, Any]) -> None:
    server.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", **document}))


def pod(name: str, node: str, blocks: int, owner: str = "", priority: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": SPACE, "labels": {"app": name}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    container = {"name": "main", "image": "none", "resources": {"limits": {BLOCKS: str(blocks)}}}
    spec: dict[str, Any] = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 20}
    return {"kind": "Pod", "metadata": metadata, "spec": spec | ({"priorityClassName": priority} if priority else {})}


@pytest.fixture(scope="module")
def cluster(api_server: ApiServer) -> ApiServer:
    """Three Nodes that no kubelet stands behind, and pods on them; one is under a budget that lets nobody go."""
    create(api_server, {"kind": "Namespace", "metadata": {"name": SPACE}})
    create(api_server, {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}})
    higher = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "higher"}, "value": 9}
    create(api_server, higher)
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {BLOCKS: "8"},
        "capacity": {BLOCKS: "8"},
    }
    for name in (OWN, OTHER, FULL):
        create(api_server, {"kind": "Node", "metadata": {"name": name}})
        patch = json.dumps({"status": ready})
        api_server.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
        # What the API server puts on every new Node, and a controller takes off when it is ready.
        api_server.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec": {"taints": null}}')
    for one in (
        pod("guarded", OWN, 2, owner="set"),
        pod("free", OWN, 3, owner="set", priority="higher"),
        pod("bare", OWN, 1, priority="higher"),
        pod("elsewhere", OTHER, 6),
        pod("fills", FULL, 8),
    ):
        create(api_server, one)
        # Budgets don't hold for pods that have not begun.
        running = json.dumps({"status": {"phase": "Running", "conditions": ready["conditions"]}})
        name = one["metadata"]["name"]
        api_server.kubectl("-n", SPACE, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", running)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    metadata = {"name": "keep", "namespace": SPACE}
    create(api_server, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    said = json.dumps({"status": status})  # by hand: no controller runs here
    api_server.kubectl("-n", SPACE, "patch", "pdb", "keep", "--subresource=status", "--type=merge", "-p", said)
    return api_server


def api_of(server: ApiServer, place: Path, name: str, *groups: str) -> KubeApi:
    file = place / f"{name.replace(':', '-')}.json"
    file.write_text(json.dumps(server.kubeconfig(name, *groups)))
    return KubeApi(kubeconfig(str(file)), 5, Backoff(tries=1))


@pytest.fixture
def kubelet(cluster: ApiServer, tmp_path: Path) -> KubeApi:
    """The identity that the agents have by default."""
    return api_of(cluster, tmp_path, f"system:node:{OWN}", "system:nodes")


@pytest.fixture
def migrator(cluster: ApiServer, tmp_path: Path) -> KubeApi:
    """One with the rights that are declared for it."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "migrator"}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**role, "rules": migration_rules()}))
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "migrator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "migrator"}],
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(binding))
    return api_of(cluster, tmp_path, "migrator", "nobody")


def held(server: ApiServer, place: Path, name: str, use: int, blocks: int) -> PodHolding:
    uid = server.kubectl("-n", SPACE, "get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    cgroup = place / "kubepods" / f"pod{uid}"
    cgroup.mkdir(parents=True)
    (cgroup / "memory.stat").write_text(f"inactive_anon {use * MIB}\n")
    return PodHolding(SPACE, name, uid, str(cgroup), (Holding("main", tuple(f"CM-{name}-{n}" for n in range(blocks))),))


@pytest.fixture
def reclaimers() -> Iterator[list[Reclaimer]]:
    started: list[Reclaimer] = []
    yield started
    for reclaimer in started:
        reclaimer.stop()


def test_a_migrator_sees_where_blocks_are_free_and_the_kubelet_does_not(kubelet: KubeApi, migrator: KubeApi) -> None:
    (room,) = migrate_look.look(migrator, BLOCKS, OWN)
    assert (room.node, room.blocks) == (OTHER, 2)
    with pytest.raises(ApiError) as refused:
        migrate_look.look(kubelet, BLOCKS, OWN)
    assert refused.value.status == 403


def test_a_namesake_is_not_evicted_nor_is_who_is_gone(kubelet: KubeApi, cluster: ApiServer, tmp_path: Path) -> None:
    bare = held(cluster, tmp_path, "bare", 1, 1)
    namesake = PodHolding(SPACE, "bare", "00000000-1111-4222-8333-444444444444", "", bare.holdings)
    until("the API server knows the node's pods", lambda: evict(kubelet, namesake).said is Said.GONE)
    assert evict(kubelet, PodHolding(SPACE, "nobody", "x-y", "", ())).said is Said.GONE
    assert not cluster.kubectl("-n", SPACE, "get", "pod", "bare", "-o", "jsonpath={.metadata.deletionTimestamp}")


def test_a_round_is_refused_by_a_budget_and_then_takes_the_next_pod(
    cluster: ApiServer, kubelet: KubeApi, migrator: KubeApi, tmp_path: Path, reclaimers: list[Reclaimer]
) -> None:
    pods = tuple(
        held(cluster, tmp_path, name, use, blocks)
        for name, use, blocks in (("guarded", 900, 2), ("free", 400, 3), ("bare", 450, 1))
    )
    until("the API server knows the node's pods", lambda: evict(kubelet, pods[0]).said is Said.REFUSED)
    meminfo = tmp_path / "meminfo"
    text = "MemTotal: {} kB\nMemFree: 1000 kB\nMemAvailable: {} kB\n"
    meminfo.write_text(text.format(10_000 << 10, 560 << 10))
    reclaimer = Reclaimer(
        Reclaim(check_seconds=1.0),
        Identities(OWN, kubelet, migrator),
        ReclaimMetrics(Registry()),
        str(meminfo),
        str(tmp_path / "no-pressure"),
    )
    reclaimers.append(reclaimer)
    # Little is available, so the free blocks of other nodes are looked for; but not too little yet.
    snapshot = Snapshot(BLOCKS, 512 * MIB, 6, 6, 6, pods)
    reclaimer.tick(time.monotonic(), snapshot)
    until("it knows the pods", lambda: {pod.uid for pod in pods} == reclaimer.worker.known.keys())
    until("and the room", lambda: reclaimer.room)
    assert [(room.node, room.blocks) for room in reclaimer.room] == [(OTHER, 2)]
    meminfo.write_text(text.format(10_000 << 10, 460 << 10))
    until("an eviction is done", lambda: any(row[4] == "done" for row in reclaimer.table.rows))
    rows = [(row[1], row[2], row[4]) for row in reversed(reclaimer.table.rows)]
    # The guarded pod has room elsewhere and the lowest priority; of the others the bare one uses most over its blocks.
    assert rows[0] == (f"{SPACE}/guarded", "migrate", "refused")
    assert rows[1] == (f"{SPACE}/bare", "evict", "done")
    assert cluster.kubectl("-n", SPACE, "get", "pod", "bare", "-o", "jsonpath={.metadata.deletionTimestamp}")
    for name in ("guarded", "free"):
        assert not cluster.kubectl("-n", SPACE, "get", "pod", name, "-o", "jsonpath={.metadata.deletionTimestamp}")
    jsonpath = f"jsonpath={{.status.allocatable.{BLOCKS.replace('.', chr(92) + '.')}}}"
    assert cluster.kubectl("get", "node", OWN, "-o", jsonpath) == "5"
    assert reclaimer.withdrawn == set(pods[2].blocks)

    def reasons() -> set[tuple[str, str]]:
        events = json.loads(cluster.kubectl("get", "events", "-A", "-o", "json"))["items"]
        told = {(event["involvedObject"]["name"], event["reason"]) for event in events}
        return {(name, reason) for name, reason in told if name in (OWN, "guarded", "free", "bare")}

    expected = {
        ("guarded", "ColocationEvictionRefused"),
        (OWN, "ColocationEvictionRefused"),
        ("bare", "ColocationEvicted"),
        (OWN, "ColocationEvicted"),
    }
    until("all was told", lambda: reasons() == expected)
