# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Objects of the API as documents: where they lie, have them, have them not, and what of them changes.

Written by server-side apply, so the API server itself merges, and a dry run of it is what check mode tells. Ours are
known by two labels, who manages them and for what part of the collection; what lies under a name of ours without
them is somebody else's and is left alone, unless it is to be adopted; a namespace of somebody else's is used as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path

MANAGER = "colocation.kubernetes"
MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
WORKLOADS = ("Deployment", "DaemonSet")
# The kinds in which ours are looked for, and the order in which they go: what runs, then what it needs.
SWEPT = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("v1", "Pod"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Service"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("v1", "Namespace"),
)
_SERVERS_OWN = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
_CONTROLLERS_OWN = "deployment.kubernetes.io/revision"
Document = dict[str, Any]


class ObjectProblem(Exception):
    """An object can't be had or removed; the text says which, why and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """What an object is called."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Change:
    """An object before and after; None where there is none."""

    name: Name
    before: Document | None
    after: Document | None


class Objects:
    """The objects that one part of the collection has in a cluster."""

    def __init__(self, api: KubeClient, component: str, adopt: bool = False) -> None:
        self.api = api
        self.labels = {MANAGED_BY: MANAGER, COMPONENT: component}
        self._adopt = adopt
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}  # by apiVersion and kind: plural, namespaced

    def name(self, document: Mapping[str, Any]) -> Name:
        """What the document calls the object; ObjectProblem where it is none, or of a kind the cluster has not."""
        metadata = document.get("metadata")
        parts = (document.get("apiVersion"), document.get("kind"), metadata and dict(metadata).get("name"))
        if not all(isinstance(part, str) and part for part in parts):
            raise ObjectProblem(f"an object needs apiVersion, kind and metadata.name: {json.dumps(document)[:80]}")
        api_version, kind, name = (str(part) for part in parts)
        namespaced = self._kind(api_version, kind)[1]
        namespace = str(dict(metadata or {}).get("namespace") or "default") if namespaced else ""
        return Name(api_version, kind, namespace, name)

    def path(self, name: Name) -> str:
        return self._collection(name.api_version, name.kind, name.namespace) + api_path(name.name)

    def find(self, name: Name) -> Document | None:
        return self.api.find(self.path(name))

    def apply(self, document: Document, dry_run: bool) -> Change | None:
        """Have the object say what the document says; None where it does already. A dry run only tells."""
        name = self.name(document)
        standing = self.find(name)
        if standing is not None and not self.is_ours(standing) and not self._adopt:
            if name.kind == "Namespace":
                return None  # to be in it, it need not be ours
            raise ObjectProblem(f"{name} is there already and not ours (it has not our labels); rename or delete it")
        done = self._applied(name, self._labelled(document), dry_run, fresh=standing is None)
        before, after = (None if one is None else essence(one) for one in (standing, done))
        return None if before == after else Change(name, before, after)

    def _applied(self, name: Name, document: Document, dry_run: bool, fresh: bool) -> Document:
        try:
            return self.api.apply(self.path(name), document, MANAGER, dry_run=dry_run)
        except ApiError as problem:
            if dry_run and fresh and problem.status == 404:
                return document  # its namespace comes with the same run
            if problem.status in (400, 422):
                raise ObjectProblem(f"the API server refuses {name}: {problem.message}") from None
            raise

    def _labelled(self, document: Document) -> Document:
        metadata = document["metadata"]
        return {**document, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **self.labels}}}

    def is_ours(self, document: Mapping[str, Any]) -> bool:
        labels = document.get("metadata", {}).get("labels") or {}
        return all(labels.get(key) == value for key, value in self.labels.items())

    def drop(self, name: Name, dry_run: bool) -> Change | None:
        """Have no such object; None where there is none."""
        standing = self.find(name)
        if standing is None:
            return None
        if not dry_run:
            policy = "Foreground" if name.kind in WORKLOADS else "Background"  # its pods go before it
            self.api.remove(self.path(name), {"propagationPolicy": policy})
        return Change(name, essence(standing), None)

    def ours(self) -> list[Name]:
        """All that carries our labels, in the order in which it is to be removed."""
        selector = ",".join(f"{key}={value}" for key, value in self.labels.items())
        found = []
        for api_version, kind in SWEPT:
            if kind in self._discovered(api_version):
                listed = self.api.items(_group(api_version) + api_path(self._kind(api_version, kind)[0]), selector)
                metadata = [item["metadata"] for item in listed]
                found += [Name(api_version, kind, one.get("namespace", ""), one["name"]) for one in metadata]
        return found

    def _collection(self, api_version: str, kind: str, namespace: str) -> str:
        plural, namespaced = self._kind(api_version, kind)
        inside = ("namespaces", namespace) if namespaced else ()
        return _group(api_version) + api_path(*inside, plural)

    def _kind(self, api_version: str, kind: str) -> tuple[str, bool]:
        known = self._discovered(api_version)
        if kind not in known:
            raise ObjectProblem(f"this cluster has no {kind} of {api_version}")
        return known[kind]

    def _discovered(self, api_version: str) -> dict[str, tuple[str, bool]]:
        if api_version not in self._kinds:
            listed = (self.api.find(_group(api_version)) or {}).get("resources") or []
            self._kinds[api_version] = {
                one["kind"]: (one["name"], bool(one["namespaced"])) for one in listed if "/" not in one["name"]
            }
        return self._kinds[api_version]


def _group(api_version: str) -> str:
    return api_path("apis" if "/" in api_version else "api", *api_version.split("/"))


def essence(document: Mapping[str, Any]) -> Document:
    """An object without what the server and its controllers write: what can be compared, and applied again."""
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key not in _SERVERS_OWN}
    if _CONTROLLERS_OWN in (metadata.get("annotations") or {}):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != _CONTROLLERS_OWN}
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Of two values that differ only what differs."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return before, after
    changed = [key for key in [*before, *after] if (key in before, before.get(key)) != (key in after, after.get(key))]
    pruned_before, pruned_after = {}, {}
    for key in dict.fromkeys(changed):
        if key in before and key in after:
            pruned_before[key], pruned_after[key] = difference(before[key], after[key])
        else:
            (pruned_before if key in before else pruned_after)[key] = (before if key in before else after)[key]
    return pruned_before, pruned_after


def told(change: Change) -> dict[str, Any]:
    """The change as a diff of Ansible; of what is secret, or not for reading, only a hash."""
    before, after = (None if one is None else _sealed(one) for one in (change.before, change.after))
    shown = difference(before, after)
    texts = ["" if one is None else json.dumps(one, indent=2, sort_keys=True) + "\n" for one in shown]
    header = str(change.name)
    return {"before": texts[0], "after": texts[1], "before_header": header, "after_header": header}


def _sealed(document: Document) -> Document:
    hidden = ("data", "stringData") if document.get("kind") == "Secret" else ("binaryData",)
    return {
        key: {name: _digest(value) for name, value in (content or {}).items()} if key in hidden else content
        for key, content in document.items()
    }


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()[:12]
