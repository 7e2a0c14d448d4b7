# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the agents on a node ask of the API, and nothing else: the one list of their rights.

From it comes the role of a minted account, and what is checked before any other identity is given to the agents.
RBAC can name a Node, but not "the pods of a node": what pods are concerned, the Node authorizer holds the kubelet's
identity to its own, while an account reaches them all. docs/security-model.md has the difference as a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_LIST = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on a resource, and what an agent does with them."""

    resource: str  # with its subresource, as RBAC writes it
    verbs: tuple[str, ...]
    what_for: str
    own_node: bool = False  # only the Node of that name


RIGHTS = (
    Right("nodes", _LIST, "see its own Node", own_node=True),
    Right("nodes/status", ("patch",), "put what it offers on its Node's status", own_node=True),
    Right("pods", _LIST, "know the priority and owner of the pods on its node"),
    Right("pods/status", ("patch",), "write the GPU that a pod got into its annotations"),
    Right("pods/eviction", ("create",), "evict a pod when memory runs out"),
    Right("events", ("create", "patch"), "say what it did"),
)


# Of an identity of its own, which a node has only if somebody gives it one: to migrate pods, not just evict them.
MIGRATION_RIGHTS = (
    Right("nodes", ("list",), "find Nodes that offer blocks"),
    Right("pods", ("list",), "count the blocks that are taken there"),
)


def migration_rules() -> list[dict[str, Any]]:
    """The rules of a ClusterRole for who looks where else blocks are free."""
    return [{"apiGroups": [""], "resources": [r.resource], "verbs": list(r.verbs)} for r in MIGRATION_RIGHTS]


def rules(node: str) -> list[dict[str, Any]]:
    """The rules of a ClusterRole for the agents of one node."""
    return [
        {"apiGroups": [""], "resources": [right.resource], "verbs": list(right.verbs)}
        | ({"resourceNames": [node]} if right.own_node else {})
        for right in RIGHTS
    ]


def questions(node: str) -> dict[str, dict[str, Any]]:
    """One access review for each right that can be asked for without naming a pod: what it is in words, and its body.

    Kubernetes before 1.31 does not know the selector and ignores it, as its Node authorizer does.
    """
    asked = {}
    for right in RIGHTS:
        resource, dummy, subresource = right.resource.partition("/")
        attributes: dict[str, Any] = {"resource": resource, "subresource": subresource, "verb": right.verbs[0]}
        if right.own_node:
            attributes["name"] = node
        elif right.resource == "pods":
            requirement = {"key": "spec.nodeName", "operator": "In", "values": [node]}
            attributes |= {"verb": "list", "fieldSelector": {"requirements": [requirement]}}
        words = f"{attributes['verb']} {right.resource} (to {right.what_for})"
        asked[words] = review(attributes)
    return asked


EVERYTHING = {"group": "*", "resource": "*", "verb": "*"}


def review(attributes: dict[str, Any]) -> dict[str, Any]:
    """The question whether the asker may do something."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return {**kind, "spec": {"resourceAttributes": attributes}}
