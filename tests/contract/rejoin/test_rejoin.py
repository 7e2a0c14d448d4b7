# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Rejoins through a real API server, with a double of the host: killed at every write, raced, without rights."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_cluster import Terms
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_drain import Drain
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import REJOINING, STEPS, RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.modules import node_rejoin
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.rejoin.cluster_nodes import Cluster
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import (
    HostDouble,
    Killed,
    Strokes,
    leftovers,
    rejoin,
    snapshot,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

LATER = itertools.count(10, 10)  # seconds


def run(host: HostDouble, strokes: Strokes | None = None, terms: Terms | None = None) -> tuple[str, ...]:
    """One run, in which the kubelet syncs whenever we wait."""

    def sleep(seconds: float) -> None:
        host.follow()
        time.sleep(min(seconds, 0.05))

    # Each run comes when the lock of the one before it has expired.
    later = next(LATER)
    return rejoin(host.client, host, strokes or Strokes(), terms, sleep=sleep, now=lambda: time.time() + later)


@pytest.fixture
def cluster(api_server: ApiServer) -> Iterator[Cluster]:
    made = Cluster(api_server)
    yield made
    made.close()


def test_a_node_comes_back_as_it_was(cluster: Cluster) -> None:
    host = cluster.host()
    sets = f"/apis/apps/v1/namespaces/{cluster.name}/daemonsets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    cluster.client.post(
        sets, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "owner"}, "spec": spec}
    )
    cluster.pod(host.node, "daemon", "DaemonSet")
    cluster.pod(host.node, "web", "ReplicaSet")
    before = snapshot(cluster.client, host.node)
    assert before["gpus"] == "10"
    steps = run(host)
    assert steps == STEPS
    assert snapshot(cluster.client, host.node) == before
    assert cluster.pods() == ["daemon"]


def test_killed_at_every_write_the_next_run_ends_in_the_same_place(cluster: Cluster) -> None:
    first, strokes = cluster.host("count"), Strokes()
    run(first, strokes)
    assert strokes.count > 25
    for at in range(1, strokes.count + 1):
        host = cluster.host(f"w{at}")
        before = snapshot(cluster.client, host.node)
        with pytest.raises(Killed):
            run(host, Strokes(at, after=at % 2 == 0))
        if at % 3 == 0:
            host.reboot()
        run(host)
        assert snapshot(cluster.client, host.node) == before
        assert (host.identity, host.mark, host.agents_run) == ("new", "", True)


def test_a_disruption_budget_is_honoured_until_the_time_is_over(cluster: Cluster) -> None:
    host = cluster.host()
    path = cluster.pod(host.node, "web", "ReplicaSet", labels={"app": "web"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budgets = f"/apis/policy/v1/namespaces/{cluster.name}/poddisruptionbudgets"
    metadata = {"name": "web"}
    cluster.client.post(
        budgets, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    )
    # What the controller would say: one healthy pod, which is needed.
    said = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    cluster.client.patch(f"{budgets}/web/status", {"status": {**said, "disruptionsAllowed": 0}})
    drain = Drain(cluster.client, host.node, set(), sleep=lambda _seconds: time.sleep(0.1))
    left = drain.run(0.5, lambda: False)
    assert [one.pod for one in left] == [f"{cluster.name}/web"]
    assert "budget" in left[0].reason
    assert cluster.client.get(path)
    rounds = []

    def allow() -> None:
        rounds.append(1)
        cluster.client.patch(f"{budgets}/web/status", {"status": {**said, "disruptionsAllowed": 1}})

    drain = Drain(cluster.client, host.node, set(), alive=allow, sleep=lambda _seconds: time.sleep(0.1))
    assert drain.run(20, lambda: False) == []
    assert rounds
    assert drain.evicted == [f"{cluster.name}/web"]


def test_mirrors_stay_finished_pods_go_and_a_dead_node_is_not_waited_for(cluster: Cluster) -> None:
    host = cluster.host()
    # The API server takes the mirror of a static pod from a kubelet only; what it looks like is enough here.
    finished = cluster.pod(host.node, "finished")
    cluster.client.patch(f"{finished}/status", {"status": {"phase": "Succeeded"}})
    held = cluster.pod(host.node, "held", "ReplicaSet", finalizers=["example.com/never"])
    drain = Drain(cluster.client, host.node, set())
    assert drain.run(30, lambda: True) == []
    assert cluster.pods() == []
    assert sorted(drain.evicted) == [f"{cluster.name}/finished", f"{cluster.name}/held"]
    cluster.client.patch(held, {"metadata": {"finalizers": None}})


def test_a_replaced_pod_of_the_same_name_is_not_evicted_for_its_predecessor(cluster: Cluster) -> None:
    host = cluster.host()
    old = {"metadata": {"name": "web-0", "namespace": cluster.name, "uid": str(uuid.uuid4())}}
    cluster.pod(host.node, "web-0", "StatefulSet")
    drain = Drain(cluster.client, host.node, set())
    assert drain._evict(old) != ""
    assert cluster.pods() == ["web-0"]


def test_a_second_run_is_kept_out_and_a_silent_one_is_overtaken(cluster: Cluster) -> None:
    host = cluster.host()

    def second(**options: Any) -> dict[str, Any]:
        return call(node_rejoin.main, **_begin(cluster, host, **options))

    first = second(lock_seconds=3600)
    assert first["steps"] == list(STEPS)
    # As another run would find it: not expired, and renewed while it looks.
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/colocation-rejoin-{host.node}"
    assert cluster.client.get(lease)["spec"]["holderIdentity"] == first["holder"]
    cluster.client.patch(lease, {"spec": {"leaseDurationSeconds": 1}})
    third = second()
    assert third["operation"] == first["operation"]
    overtaken = call(node_rejoin.main, **_step(cluster, host, "prepare", first["holder"]))
    assert overtaken["failed"] and "lost its lock" in overtaken["msg"]
    call(node_rejoin.main, **_step(cluster, host, "fail", third["holder"], reason="given up"))


def test_a_failure_leaves_reason_and_state_and_no_lock(cluster: Cluster) -> None:
    host = cluster.host()
    begun = call(node_rejoin.main, **_begin(cluster, host))
    failed = call(node_rejoin.main, **_step(cluster, host, "fail", begun["holder"], reason="the disk is full"))
    assert failed["saved"]["reason"] == "the disk is full"
    assert failed["saved"]["labels"]["team"] == "blue"
    assert failed["where"] == f"kube-system/colocation-rejoin-{host.node}"
    assert leftovers(cluster.client, host.node) == [f"colocation-rejoin-{host.node}"]  # the Secret, no Lease, no token
    run(host)
    assert leftovers(cluster.client, host.node) == []


def test_check_mode_plans_and_changes_nothing(cluster: Cluster) -> None:
    host = cluster.host()
    version = cluster.client.get(f"/api/v1/nodes/{host.node}")["metadata"]["resourceVersion"]
    planned = call(node_rejoin.main, check_mode=True, **_begin(cluster, host))
    assert planned["changed"] and planned["steps"] == list(STEPS)
    assert planned["diff"]["after"].splitlines() == list(STEPS)
    assert cluster.client.get(f"/api/v1/nodes/{host.node}")["metadata"]["resourceVersion"] == version
    assert leftovers(cluster.client, host.node) == []
    cluster.pod(host.node, "mine")
    refused = call(node_rejoin.main, check_mode=True, **_begin(cluster, host))
    assert refused["failed"] and f"{cluster.name}/mine" in refused["msg"]


def test_the_node_is_made_before_its_kubelet_comes_with_its_taints(cluster: Cluster) -> None:
    host = cluster.host(unschedulable=False)
    view, _files = host.look()
    begun = call(node_rejoin.main, **_begin(cluster, host))
    proof = host.stop(begun["operation"])
    options = {"host_facts": _facts(view), "proof": proof, "holder": begun["holder"]}
    assert call(node_rejoin.main, **_step(cluster, host, "delete", **options))["changed"]
    made = call(node_rejoin.main, **_step(cluster, host, "prepare", begun["holder"]))
    assert set(made["way"]) == {"endpoint", "pins", "token"} and made["way"]["endpoint"] == "10.0.0.1:6443"
    node = cluster.client.get(f"/api/v1/nodes/{host.node}")
    assert node["spec"]["unschedulable"] is True
    assert {taint["key"] for taint in node["spec"]["taints"]} >= {"dedicated"}
    assert node["metadata"]["annotations"][REJOINING] == begun["operation"]
    token_id = made["way"]["token"].partition(".")[0]
    token = cluster.client.get(f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token_id}")
    assert token["type"] == "bootstrap.kubernetes.io/token"
    again = call(node_rejoin.main, **_step(cluster, host, "prepare", begun["holder"]))
    assert again["way"]["token"] != made["way"]["token"]
    assert [name for name in leftovers(cluster.client, host.node) if "bootstrap" in name] == [
        f"bootstrap-token-{again['way']['token'].partition('.')[0]}"
    ]
    call(node_rejoin.main, **_step(cluster, host, "fail", begun["holder"], reason="enough"))


def test_without_a_proof_the_node_stays(cluster: Cluster) -> None:
    host = cluster.host()
    view, _files = host.look()
    begun = call(node_rejoin.main, **_begin(cluster, host))
    for proof in ({}, {"operation": "another", "stopped": True}, {"operation": begun["operation"], "stopped": False}):
        options = {"host_facts": _facts(view), "proof": proof, "holder": begun["holder"], "fenced": True}
        refused = call(node_rejoin.main, **_step(cluster, host, "delete", **options))
        assert refused["failed"] and "nothing proves" in refused["msg"]
    call(node_rejoin.main, **_step(cluster, host, "fail", begun["holder"], reason="enough"))


def test_an_unreachable_node_wants_the_users_word_and_its_kubelet_must_be_silent(cluster: Cluster) -> None:
    host = cluster.host()
    facts = {"node": host.node, "reachable": False}
    refused = call(node_rejoin.main, **{**_begin(cluster, host), "host_facts": facts})
    assert "rejoin_fenced=true" in refused["msg"]
    refused = call(node_rejoin.main, **{**_begin(cluster, host, fenced=True), "host_facts": facts})
    assert "still speaks" in refused["msg"]
    host.sync({"conditions": [{"type": "Ready", "status": "Unknown"}]})
    host.pods_run = False  # somebody pulled the plug
    begun = call(node_rejoin.main, **{**_begin(cluster, host, fenced=True), "host_facts": facts})
    assert begun["steps"] == ["drain", "delete"]
    options = {"host_facts": facts, "holder": begun["holder"], "fenced": True}
    assert call(node_rejoin.main, **_step(cluster, host, "delete", **options))["changed"]
    call(node_rejoin.main, **_step(cluster, host, "fail", begun["holder"], reason="it is switched off"))
    host.reboot()  # the old identity makes a bare Node
    run(host)
    assert snapshot(cluster.client, host.node)["labels"]["team"] == "blue"


def test_missing_rights_are_named_and_nothing_is_left(
    cluster: Cluster, api_server: ApiServer, rejoin_user: Callable[[list[dict[str, Any]]], dict[str, Any]]
) -> None:
    host = cluster.host()
    readers = rejoin_user([{"apiGroups": [""], "verbs": ["get", "list"], "resources": ["nodes", "pods"]}])
    refused = call(node_rejoin.main, **{**_begin(cluster, host), "kubeconfig": readers})
    assert refused["failed"] and "leases" in refused["msg"] and "forbidden" in refused["msg"]
    assert leftovers(cluster.client, host.node) == []


@pytest.fixture
def rejoin_user(cluster: Cluster, api_server: ApiServer) -> Iterator[Callable[[list[dict[str, Any]]], dict[str, Any]]]:
    """A kubeconfig of a user with these rules only."""
    base = "/apis/rbac.authorization.k8s.io/v1"
    made: list[str] = []

    def make(rules: list[dict[str, Any]]) -> dict[str, Any]:
        metadata = {"metadata": {"name": cluster.name}}
        cluster.client.post(f"{base}/clusterroles", {**metadata, "rules": rules})
        group = {"apiGroup": "rbac.authorization.k8s.io"}
        binding: dict[str, Any] = {
            **metadata,
            "roleRef": {**group, "kind": "ClusterRole", "name": cluster.name},
            "subjects": [{**group, "kind": "User", "name": cluster.name}],
        }
        cluster.client.post(f"{base}/clusterrolebindings", binding)
        made.extend((f"{base}/clusterroles/{cluster.name}", f"{base}/clusterrolebindings/{cluster.name}"))
        return api_server.kubeconfig(cluster.name, "testers")

    yield make
    for path in made:
        cluster.client.delete(path)


def test_bare_pods_go_only_when_the_user_says_so(cluster: Cluster) -> None:
    host = cluster.host()
    cluster.pod(host.node, "mine")
    with pytest.raises(RejoinRefused, match="rejoin_delete_bare_pods"):
        run(host)
    run(host, terms=Terms(delete_bare_pods=True))
    assert cluster.pods() == []


def _facts(view: Any) -> dict[str, Any]:
    return {name: getattr(view, name) for name in type(view).__slots__} | {"problems": [], "agents": []}


def _begin(cluster: Cluster, host: HostDouble, **options: Any) -> dict[str, Any]:
    view, files = host.look()
    kept = [{name: getattr(one, name) for name in type(one).__slots__} for one in files]
    return {
        "step": "begin",
        "node": host.node,
        "host_facts": _facts(view),
        "files": kept,
        "kubeconfig": cluster.kubeconfig,
        **options,
    }


def _step(cluster: Cluster, host: HostDouble, step: str, holder: str = "", **options: Any) -> dict[str, Any]:
    return {"step": step, "node": host.node, "holder": holder, "kubeconfig": cluster.kubeconfig, **options}
