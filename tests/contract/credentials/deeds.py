# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a thief of credentials would try, each as one request: at the node whose credentials they are, and at another.

Everything that would change something is asked as a dry run, which goes through authorization and admission all the
same. What is refused is refused with 403; what ends otherwise was let through.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

OWN, OTHER = "own", "other"
PODS = "/api/v1/namespaces/work/pods"
DRY = {"dryRun": "All"}
NO_KUBELET = (500, 502, 503, 504, 400)  # let through, but there is no kubelet behind this API server


@dataclass(frozen=True, slots=True)
class Target:
    """A Node, and the pod on it."""

    node: str
    pod_uid: str


Ask = Callable[[KubeClient, Target], Any]


@dataclass(frozen=True, slots=True)
class Deed:
    """What is tried, in the words of the table. Without `everywhere` it has a node that it aims at."""

    words: str
    ask: Ask
    everywhere: bool = False
    let_through: tuple[int, ...] = ()

    def works(self, api: KubeClient, at: Target) -> bool:
        try:
            self.ask(api, at)
        except ApiError as problem:
            if problem.status == 403:
                return False
            if problem.status not in self.let_through:
                raise
        return True


def _status(api: KubeClient, at: Target) -> None:
    api.patch(f"/api/v1/nodes/{at.node}/status", {"status": {"capacity": {"test.com/x": "5"}}}, dry_run=True)


def _labels(api: KubeClient, at: Target) -> None:
    api.patch(f"/api/v1/nodes/{at.node}", {"metadata": {"labels": {"zone": "mine"}}}, dry_run=True)


def _taints(api: KubeClient, at: Target) -> None:
    taint = {"key": "a", "effect": "NoExecute"}
    api.patch(f"/api/v1/nodes/{at.node}", {"spec": {"taints": [taint]}}, dry_run=True)


def _evict(api: KubeClient, at: Target) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"on-{at.node}", "namespace": "work"}}
    api.post(f"{PODS}/on-{at.node}/eviction", body, DRY)


def _start(api: KubeClient, at: Target) -> None:
    api.post(PODS, pod("another", at.node), DRY)


def _token(api: KubeClient, at: Target) -> None:
    bound = {"apiVersion": "v1", "kind": "Pod", "name": f"on-{at.node}", "uid": at.pod_uid}
    spec = {"audiences": [], "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    api.post(f"/api/v1/namespaces/work/serviceaccounts/for-{at.node}/token", body, DRY)


def _any_token(api: KubeClient, _at: Target) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    api.post("/api/v1/namespaces/kube-system/serviceaccounts/powerful/token", body, DRY)


def _grant(api: KubeClient, _at: Target) -> None:
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "thief"}],
    }
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body, DRY)


def _event(api: KubeClient, at: Target) -> None:
    about = {"kind": "Pod", "namespace": "work", "name": f"on-{at.node}"}
    body = {"metadata": {"name": "said", "namespace": "work"}, "involvedObject": about, "reason": "X", "message": "x"}
    api.post("/api/v1/namespaces/work/events", body, DRY)


def _lease(api: KubeClient, at: Target) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{at.node}"
    api.patch(path, {"spec": {"leaseDurationSeconds": 40}}, dry_run=True)


DEEDS = (
    Deed("read the Node", lambda api, at: api.get(f"/api/v1/nodes/{at.node}")),
    Deed("list all Nodes", lambda api, at: api.get("/api/v1/nodes"), everywhere=True),
    Deed("change what the Node offers (`nodes/status`)", _status),
    Deed("label the Node", _labels),
    Deed("taint the Node", _taints),
    Deed("keep the Node's lease alive", _lease),
    Deed("delete the Node", lambda api, at: api.delete(f"/api/v1/nodes/{at.node}", dry_run=True)),
    Deed("ask the Node's kubelet (`nodes/proxy`)", lambda api, at: api.get(f"/api/v1/nodes/{at.node}/proxy/pods"),
         let_through=NO_KUBELET),
    Deed("read the pods there", lambda api, at: api.get("/api/v1/pods", {"fieldSelector": f"spec.nodeName={at.node}"})),
    Deed("read all pods", lambda api, at: api.get("/api/v1/pods"), everywhere=True),
    Deed("change a pod's status or annotations (`pods/status`)", lambda api, at: api.patch(
        f"{PODS}/on-{at.node}/status", {"metadata": {"annotations": {"a": "b"}}}, dry_run=True)),
    Deed("change a pod otherwise", lambda api, at: api.patch(
        f"{PODS}/on-{at.node}", {"metadata": {"labels": {"a": "b"}}}, dry_run=True)),
    Deed("evict a pod, within disruption budgets", _evict),
    Deed("delete a pod", lambda api, at: api.delete(f"{PODS}/on-{at.node}", dry_run=True)),
    Deed("start a pod there", _start),
    Deed("run a command in a pod (`pods/exec`)",
         lambda api, at: api.post(f"{PODS}/on-{at.node}/exec", {}, {"command": "id"}), let_through=NO_KUBELET),
    Deed("read a Secret that a pod there uses",
         lambda api, at: api.get(f"/api/v1/namespaces/work/secrets/for-{at.node}")),
    Deed("read a Secret that no pod uses", lambda api, at: api.get("/api/v1/namespaces/work/secrets/unused"),
         everywhere=True),
    Deed("list all Secrets", lambda api, at: api.get("/api/v1/secrets"), everywhere=True),
    Deed("mint a token for a pod there", _token),
    Deed("mint a token for any account", _any_token, everywhere=True),
    Deed("grant itself more rights", _grant, everywhere=True),
    Deed("write Events", _event, everywhere=True),
)  # fmt: skip


def pod(name: str, node: str) -> dict[str, Any]:
    """A pod with an account and a Secret of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "work"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": f"for-{node}",
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": "secret", "secret": {"secretName": f"for-{node}"}}],
        },
    }


def populate(server: ApiServer) -> None:
    """What the deeds aim at, beside the two Nodes."""
    objects: list[dict[str, Any]] = [_named("Namespace", "work", ""), _named("Secret", "unused")]
    objects.append(_named("ServiceAccount", "powerful", "kube-system"))
    for node in (OWN, OTHER):
        objects += [_named("ServiceAccount", f"for-{node}"), _named("Secret", f"for-{node}"), pod(f"on-{node}", node)]
        lease = _named("Lease", node, "kube-node-lease") | {"apiVersion": "coordination.k8s.io/v1"}
        objects.append({**lease, "spec": {"holderIdentity": node, "leaseDurationSeconds": 40}})
    for one in objects:
        server.kubectl("create", "-f", "-", stdin=json.dumps(one))


def target(server: ApiServer, node: str) -> Target:
    return Target(node, server.kubectl("-n", "work", "get", "pod", f"on-{node}", "-o", "jsonpath={.metadata.uid}"))


def _named(kind: str, name: str, namespace: str = "work") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
