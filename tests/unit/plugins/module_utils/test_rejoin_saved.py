# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import REJOINING, KeptFile, Record
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_saved import (
    finishing,
    mounts_cni,
    new_node,
    restoring,
    save_node,
    static_files,
)

RECORD = Record("op", "w")
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


def _node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u", **parts.pop("metadata", {})}, "spec": parts.pop("spec", {}), **parts}


def test_what_people_wished_is_saved_and_what_daemons_say_is_not() -> None:
    node = _node(
        metadata={
            "labels": {"team": "blue"},
            "annotations": {
                "example.com/rack": "r1",
                "projectcalico.org/RouteReflectorClusterID": "244.0.0.1",
                "projectcalico.org/IPv4Address": "10.0.0.5/24",
                "flannel.alpha.coreos.com/backend-data": "{}",
                "network.cilium.io/ipv4-cilium-host": "10.1.0.1",
                "csi.volume.kubernetes.io/nodeid": "{}",
                "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///x",
                REJOINING: "an earlier one",
            },
        },
        spec={
            "unschedulable": True,
            "podCIDRs": ["10.244.1.0/24"],
            "providerID": "cloud://1",
            "taints": [
                TAINT,
                {
                    "key": "node.kubernetes.io/unschedulable",
                    "effect": "NoSchedule",
                    "timeAdded": "2026-01-01T00:00:00Z",
                },
                {"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
        },
    )
    saved = save_node(RECORD, node)
    assert saved.labels == {"team": "blue"}
    assert saved.annotations == {"example.com/rack": "r1", "projectcalico.org/RouteReflectorClusterID": "244.0.0.1"}
    assert saved.taints == (TAINT, {"key": "maintenance", "effect": "NoExecute"})
    assert (saved.cordoned, saved.pod_cidrs, saved.provider_id) == (True, ("10.244.1.0/24",), "cloud://1")
    made = new_node(saved)
    assert made["metadata"]["annotations"][REJOINING] == "op"
    assert made["spec"] == {"unschedulable": True, "taints": list(saved.taints), "providerID": "cloud://1"}


def test_a_cordon_of_our_own_is_not_taken_for_somebody_elses() -> None:
    first = save_node(RECORD, _node())
    assert not save_node(first, _node(spec={"unschedulable": True})).cordoned


def test_restoring_touches_only_what_differs() -> None:
    record = save_node(
        RECORD,
        _node(
            metadata={"labels": {"team": "blue", "kubernetes.io/hostname": "old-name"}, "annotations": {"a": "b"}},
            spec={"taints": [TAINT]},
        ),
    )
    as_was = _node(
        metadata={
            "labels": {"team": "blue", "kubernetes.io/hostname": "w", "more": "x"},
            "annotations": {"a": "b", "c": "d"},
        },
        spec={"taints": [TAINT, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    )
    assert restoring(record, as_was) == {}
    other = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}
    health = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert restoring(record, _node(spec={"taints": [other, health]})) == {
        "metadata": {"labels": {"team": "blue"}, "annotations": {"a": "b"}},
        "spec": {"taints": [health, TAINT]},
    }


@pytest.mark.parametrize(
    ("cordoned", "spec", "patch"),
    [
        (False, {"unschedulable": True}, {"spec": {"unschedulable": None}}),
        (True, {"unschedulable": True}, {}),
        (False, {}, {}),
        (True, {}, {"spec": {"unschedulable": True}}),
    ],
)
def test_finishing(cordoned: bool, spec: dict[str, Any], patch: dict[str, Any]) -> None:
    assert finishing(Record("op", "w", cordoned=cordoned), _node(spec=spec)) == patch
    ours = finishing(
        Record("op", "w", cordoned=cordoned), _node(metadata={"annotations": {REJOINING: "op"}}, spec=spec)
    )
    assert ours == {"metadata": {"annotations": {REJOINING: None}}, **patch}


def _daemonset(name: str, path: str = "/etc/cni/net.d") -> dict[str, Any]:
    volumes = [{"name": "run", "emptyDir": {}}, {"name": "cni", "hostPath": {"path": path}}]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"volumes": volumes}}}}


@pytest.mark.parametrize(
    ("daemonset", "file", "kept"),
    [
        ("calico-node", "10-calico.conflist", False),
        ("calico-node", "calico-kubeconfig", False),
        ("kube-flannel-ds", "10-flannel.conflist", False),
        ("cilium", "05-cilium.conflist", False),
        ("kube-router", "10-kuberouter.conf", False),
        ("kube-multus-ds", "00-multus.conf", False),
        ("kindnet", "10-kindnet.conflist", False),
        ("canal", "10-canal.conflist", False),
        ("aws-node", "10-aws.conflist", False),
        ("calico-node", "05-own.conflist", True),
        ("kube-proxy", "10-flannel.conflist", True),
        ("node-agent", "10-node.conf", True),
    ],
)
def test_files_that_a_daemonset_writes_again(daemonset: str, file: str, kept: bool) -> None:
    one = KeptFile(f"/etc/cni/net.d/{file}", "")
    assert (static_files([one], [_daemonset(daemonset)]) == (one,)) is kept
    assert static_files([one], [_daemonset(daemonset, "/var/log")]) == (one,)  # it does not reach the directory
    elsewhere = KeptFile(f"/etc/kubernetes/manifests/{file}", "")
    assert static_files([elsewhere], [_daemonset(daemonset)]) == (elsewhere,)


@pytest.mark.parametrize("path", ["/", "/etc", "/etc/cni", "/etc/cni/net.d/"])
def test_directories_above_count(path: str) -> None:
    assert mounts_cni(_daemonset("x", path))
