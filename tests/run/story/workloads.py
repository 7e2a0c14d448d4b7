# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The pods of the story, as the API wants them.

What `tail` keeps is memory that nobody can take from it while it lives; `dd` feeds it as fast as the story wants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .readings import MEMORY, ROLE

Thing = dict[str, Any]

NAMESPACE = "story"
IMAGE = "colocation.test/workload:1"
BLOCKS = 6  # of each batch pod
BLOCK_MIB = 64
USED_MIB = 300  # by each batch pod, of 384
BATCH_PODS = 4
NEW_PODS = 6
PROFILE = "mem-real-usage-scheduler"
WEB = {"web-1": 1, "web-2": 2, "web-3": 3}  # processors
MIGRATOR = "story-migrator"


def namespace() -> Thing:
    """Where all pods of the story are; with it they go."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def batch() -> Thing:
    """Batch work that takes blocks of idle memory, and uses most of what it took."""
    script = f"{{ dd if=/dev/zero bs=1M count={USED_MIB}; sleep 86400; }} | tail -c {USED_MIB + 1}m"
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {ROLE: "batch"}},
    }
    pod = _pod(script, {"limits": {MEMORY: str(BLOCKS)}}, topologySpreadConstraints=[spread])
    return _deployment("batch", BATCH_PODS, pod)


def online(node: str, mib: int, step_mib: int = 32) -> Thing:
    """A service that asks for little and grows on one node, step by step."""
    steps = max(1, mib // step_mib)
    feed = f"i=0; while [ $i -lt {steps} ]; do dd if=/dev/zero bs=1M count={step_mib}; i=$((i+1)); sleep 1; done"
    script = f"{{ {feed}; sleep 86400; }} | tail -c {steps * step_mib + 1}m"
    asked = {"requests": {"memory": "64Mi", "cpu": "100m"}}
    return _deployment("online", 1, _pod(script, asked, nodeSelector={"kubernetes.io/hostname": node}))


def web(name: str, node: str) -> Thing:
    """A pod that asks for whole processors of a node."""
    pod = _pod("exec sleep 86400", {"requests": {"cpu": str(WEB[name])}}, nodeName=node)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {ROLE: "web"}},
        "spec": pod,
    }


def gpu(name: str, node: str, resource: str, units: int = 16) -> Thing:
    """A pod that asks for a part of a GPU's memory."""
    chosen = {"kubernetes.io/hostname": node}
    pod = _pod("exec sleep 86400", {"limits": {resource: str(units)}}, nodeSelector=chosen)
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {ROLE: "gpu"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def new_pods(role: str) -> Thing:
    """Small pods, placed by real use (`use`) or by what pods asked for (`requests`)."""
    asked = {"requests": {"memory": "20Mi", "cpu": "10m"}}
    chosen = {"schedulerName": PROFILE} if role == "use" else {}
    return _deployment(role, NEW_PODS, _pod("exec sleep 86400", asked, **chosen))


def migrator() -> tuple[Thing, ...]:
    """Somebody who may see on which nodes blocks are free, and nothing else (docs/security-model.md)."""
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    rbac = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": MIGRATOR, "namespace": NAMESPACE}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MIGRATOR, "namespace": NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": MIGRATOR}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": MIGRATOR},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": MIGRATOR},
            "subjects": [account],
        },
    )


def kubeconfig(server: str, authority: str, token: str) -> Thing:
    """A kubeconfig with a token; `authority` is in base64."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "it", "user": {"token": token}}],
    }


def _pod(script: str, resources: Mapping[str, Any], **more: Any) -> Thing:
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sh", "-c", script],
        "resources": dict(resources),
    }
    return {"terminationGracePeriodSeconds": 1, "containers": [container], **more}


def _deployment(role: str, replicas: int, pod: Thing) -> Thing:
    labels = {ROLE: role}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def placed(pods: Sequence[Mapping[str, Any]], role: str) -> list[Mapping[str, Any]]:
    """Those pods that have a role in the story."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(ROLE) == role]
