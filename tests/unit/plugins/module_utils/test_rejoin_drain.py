# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_drain import (
    BARE,
    EVICT,
    STAYS,
    bare_pods,
    judge,
)

SETS = {("kube-system", "agent")}


def _pod(owner: str = "", phase: str = "Running", name: str = "p", **metadata: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "agent", "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "kube-system", "ownerReferences": owners, **metadata},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        (_pod("ReplicaSet"), EVICT),
        (_pod("DaemonSet"), STAYS),
        (_pod("DaemonSet", "Succeeded"), EVICT),
        (_pod("DaemonSet", namespace="other"), EVICT),  # its DaemonSet is gone
        (_pod("Job", "Succeeded"), EVICT),
        (_pod(), BARE),
        (_pod(phase="Failed"), EVICT),
        (_pod(annotations={"kubernetes.io/config.mirror": "hash"}), STAYS),
        (_pod("Node", annotations={"kubernetes.io/config.mirror": "hash"}), STAYS),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "agent"}]}}, BARE),  # owned, not controlled
    ],
)
def test_what_a_pod_is_to_a_drain(pod: dict[str, Any], verdict: str) -> None:
    assert judge(pod, SETS) == verdict


def test_bare_pods_that_are_going_anyhow_are_not_lost_by_us() -> None:
    going = _pod(name="going", deletionTimestamp="2026-01-01T00:00:00Z")
    assert bare_pods([going, _pod(name="mine"), _pod("Job")], SETS) == ["kube-system/mine"]
