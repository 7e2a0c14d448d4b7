# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What of a Node, and of its host's files, has to be there again after a rejoin. Values in, values out.

Everything that somebody wished: labels, taints, annotations, patched resources, files. Not what the cluster says of a
node by itself (its troubles, as taints) nor what a daemon of the network says of the machine (addresses, keys), for it
says that anew, and an old word would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import patched_by_us
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    REJOINING,
    Document,
    KeptFile,
    Record,
    view_of,
)

CNI_DIRECTORY = "/etc/cni/net.d"
# The node controllers' taints: of a node's health, and of one that its cloud has not seen yet.
_OTHERS_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
# The kubelet sets these itself, and is right.
_KUBELETS_LABELS = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
# Written by the kubelet, kubeadm, controllers and the daemons of networks, each of which writes them anew.
_OTHERS_ANNOTATIONS = re.compile(
    r"colocation\.kubernetes/(rejoining|draining)$|kubeadm\.alpha\.kubernetes\.io/cri-socket$|node\.alpha\.kubernetes\.io/ttl$"
    r"|volumes\.kubernetes\.io/controller-managed-attach-detach$|csi\.volume\.kubernetes\.io/nodeid$"
    r"|alpha\.kubernetes\.io/provided-node-ip$|flannel\.alpha\.coreos\.com/|(.+\.)?cilium\.io/|io\.cilium\."
    r"|projectcalico\.org/(IPv[46]|Wireguard)|node\.antrea\.io/|k8s\.ovn\.org/"
)
_NAMES_LITTLE = ("agent", "cni", "daemon", "kube", "net", "node", "nodes")  # parts of a DaemonSet's name


def save_node(record: Record, node: Mapping[str, Any]) -> Record:
    """The record with what stands in the Node now. Whether it was cordoned is kept: it may be our own doing by now."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    return replace(
        record,
        old_uid=str(metadata.get("uid", "")),
        cordoned=record.cordoned if record.old_uid else view_of(node).cordoned,
        labels=dict(metadata.get("labels") or {}),
        annotations={name: text for name, text in annotations.items() if not _OTHERS_ANNOTATIONS.match(name)},
        taints=tuple(wished_taints(spec.get("taints") or ())),
        resources=patched_by_us(node),
        provider_id=str(spec.get("providerID") or ""),
        pod_cidrs=tuple(spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])),
    )


def wished_taints(taints: Iterable[Document]) -> list[Document]:
    """Those that are not about the node's health, without the time at which they came."""
    return [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        for taint in taints
        if not str(taint.get("key", "")).startswith(_OTHERS_TAINTS)
    ]


def new_node(record: Record) -> Document:
    """The Node before its kubelet comes: as it was, but cordoned, so no pod slips in between."""
    spec: Document = {"unschedulable": True}
    if record.taints:
        spec["taints"] = list(record.taints)
    if record.provider_id:
        spec["providerID"] = record.provider_id
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": record.node,
            "labels": record.labels,
            "annotations": {**record.annotations, REJOINING: record.operation},
        },
        "spec": spec,
    }


def restoring(record: Record, node: Mapping[str, Any]) -> Document:
    """The merge patch after which the Node has again what was saved; empty where it has."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    labels = {
        name: text
        for name, text in record.labels.items()
        if name not in _KUBELETS_LABELS and (metadata.get("labels") or {}).get(name) != text
    }
    annotations = {
        name: text for name, text in record.annotations.items() if (metadata.get("annotations") or {}).get(name) != text
    }
    there = list(spec.get("taints") or ())
    missing = [taint for taint in record.taints if not any(_same_taint(taint, one) for one in there)]
    patch: Document = {}
    if labels or annotations:
        parts = (("labels", labels), ("annotations", annotations))
        patch["metadata"] = {name: values for name, values in parts if values}
    if missing:
        replaced = [one for one in there if not any(_same_place(one, taint) for taint in missing)]
        patch["spec"] = {"taints": replaced + missing}
    return patch


def finishing(record: Record, node: Mapping[str, Any]) -> Document:
    """The merge patch that lets pods come, unless somebody else had cordoned the node; with it goes our annotation."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    patch: Document = {}
    if REJOINING in (metadata.get("annotations") or {}):
        patch["metadata"] = {"annotations": {REJOINING: None}}
    if bool(spec.get("unschedulable")) != record.cordoned:
        patch["spec"] = {"unschedulable": True if record.cordoned else None}
    return patch


def static_files(files: Sequence[KeptFile], daemonsets: Iterable[Mapping[str, Any]]) -> tuple[KeptFile, ...]:
    """Those that no DaemonSet will write again.

    Which file a DaemonSet writes is not to be seen. It mounts the directory, and by all known networks' habit its name
    is in the file's: calico-node writes 10-calico.conflist and calico-kubeconfig.
    """
    words = {word for one in daemonsets if mounts_cni(one) for word in _telling_words(one)}
    return tuple(one for one in files if not one.path.startswith(CNI_DIRECTORY + "/") or not _tells(one.path, words))


def mounts_cni(daemonset: Mapping[str, Any]) -> bool:
    """Whether its pods reach the directory of the networks' configuration."""
    spec = ((daemonset.get("spec") or {}).get("template") or {}).get("spec") or {}
    paths = [str((one.get("hostPath") or {}).get("path", "")) for one in spec.get("volumes") or ()]
    return any(f"{CNI_DIRECTORY}/".startswith(path.rstrip("/") + "/") for path in paths if path)


def _telling_words(daemonset: Mapping[str, Any]) -> set[str]:
    name = str((daemonset.get("metadata") or {}).get("name", "")).lower()
    words = {word for word in name.split("-") if len(word) > 2 and word not in _NAMES_LITTLE}
    return words | {name.replace("-", "")}


def _tells(path: str, words: set[str]) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", path.rpartition("/")[2].lower())
    return any(word in plain for word in words)


def _same_taint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all((one.get(key) or "") == (other.get(key) or "") for key in ("key", "value", "effect"))


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """A node has one taint of a key and an effect."""
    return all((one.get(key) or "") == (other.get(key) or "") for key in ("key", "effect"))
