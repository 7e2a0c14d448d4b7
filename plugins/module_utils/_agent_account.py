# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An account of a node's agents in the API: a ServiceAccount, a ClusterRole with their rights, a ClusterRoleBinding.

Each node has its own, because that is the only way in which RBAC can hold a right to one Node, and because one node's
account can then be taken away alone. All three belong to the Node: when it is deleted they go with it, and so does
every token. What carries our names but not our label is somebody else's, and is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_rights import rules
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    KubeClient,
    api_path,
)

PREFIX = "colocation-agent-"
LABELS = {"app.kubernetes.io/managed-by": "colocation.kubernetes", "app.kubernetes.io/component": "agent-credentials"}
RBAC = "rbac.authorization.k8s.io"
MANAGER = "colocation.kubernetes"
Document = dict[str, Any]


class AccountError(Exception):
    """The account can't be made or removed; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whose account it is and where."""

    node: str
    namespace: str

    @property
    def name(self) -> str:
        return PREFIX + self.node

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def paths(self) -> dict[str, tuple[str, str]]:
        """For each object the path of its kind and its own."""
        accounts = api_path("api", "v1", "namespaces", self.namespace, "serviceaccounts")
        roles, bindings = (api_path("apis", RBAC, "v1", kind) for kind in ("clusterroles", "clusterrolebindings"))
        own = api_path(self.name)
        return {
            "ServiceAccount": (accounts, accounts + own),
            "ClusterRole": (roles, roles + own),
            "ClusterRoleBinding": (bindings, bindings + own),
        }

    def wanted(self, node_uid: str) -> dict[str, Document]:
        """The objects as they should be, in the order in which they are made."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node_uid}
        metadata = {"name": self.name, "labels": LABELS, "ownerReferences": [owner]}
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": self.name}
        subject = {"kind": "ServiceAccount", "namespace": self.namespace, "name": self.name}
        of_rbac = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        return {
            "ServiceAccount": {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata | {"namespace": self.namespace},
                "automountServiceAccountToken": False,
            },
            "ClusterRole": {**of_rbac, "kind": "ClusterRole", "rules": rules(self.node)},
            "ClusterRoleBinding": {**of_rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
        }


@dataclass(slots=True)
class Changes:
    """What was changed in the API, or in check mode would be, by the objects' kinds."""

    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    def note(self, kind: str, before: Any, after: Any) -> None:
        self.before[kind], self.after[kind] = before, after


def make(api: KubeClient, account: Account, check_mode: bool) -> Changes:
    """Have the account with exactly its rights; what somebody changed in it goes back."""
    uid = _node_uid(api, account.node)
    changes = Changes()
    for kind, wanted in account.wanted(uid).items():
        listed, own = account.paths()[kind]
        standing = api.find(own)
        if standing is not None:
            _require_ours(kind, account.name, standing)
        if standing is not None and kind == "ClusterRoleBinding" and standing.get("roleRef") != wanted["roleRef"]:
            raise AccountError(f"ClusterRoleBinding {account.name} gives another role; delete it and run again")
        now, then = (None if one is None else _told(one) for one in (standing, wanted))
        if now == then:
            continue
        changes.note(kind, now, then)
        if check_mode:
            continue
        if standing is None:
            api.post(listed, wanted, {"fieldManager": MANAGER})
        else:
            api.patch(own, wanted, MERGE_PATCH, field_manager=MANAGER, repeat=True)
    return changes


def drop(api: KubeClient, account: Account, check_mode: bool) -> Changes:
    """Have no such account; its tokens end with it."""
    changes = Changes()
    for kind, (_listed, own) in reversed(account.paths().items()):
        standing = api.find(own)
        if standing is None:
            continue
        _require_ours(kind, account.name, standing)
        changes.note(kind, _told(standing), None)
        if not check_mode:
            api.remove(own)
    return changes


def mint(api: KubeClient, account: Account, days: int) -> tuple[str, str]:
    """A token of an account and when it ends, as the API server has it: it may give less than was asked for."""
    path = account.paths()["ServiceAccount"][1] + "/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": days * 86400},
    }
    status = api.post(path, body).get("status", {})
    if not status.get("token"):
        raise AccountError(f"the API server gave no token for {account.user}")
    return str(status["token"]), str(status.get("expirationTimestamp", ""))


def _node_uid(api: KubeClient, node: str) -> str:
    found = api.find(api_path("api", "v1", "nodes", node))
    if found is None:
        raise AccountError(f"the API knows no Node {node!r}; credentials_node_name says what the node is called there")
    return str(found["metadata"]["uid"])


def _require_ours(kind: str, name: str, standing: Document) -> None:
    labels = standing.get("metadata", {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in LABELS.items()):
        raise AccountError(f"{kind} {name} is there already and not ours (it has not our labels); rename or delete it")


def _told(document: Mapping[str, Any]) -> Document:
    """Of an object what we decide: for the comparison, and for the diff."""
    metadata = document.get("metadata", {})
    labels = metadata.get("labels") or {}
    owners = [owner.get("uid") for owner in metadata.get("ownerReferences") or []]
    told: Document = {"labels": {key: labels.get(key) for key in LABELS}, "owners": owners}
    for key in ("automountServiceAccountToken", "roleRef", "subjects"):
        if key in document:
            told[key] = document[key]
    if "rules" in document:
        told["rules"] = [{key: sorted(rule[key]) for key in sorted(rule) if rule[key]} for rule in document["rules"]]
    return told
