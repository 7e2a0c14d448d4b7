# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Node object in values."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import Condition
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_object import describe, leftovers
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import DRAINING, REJOINING

LEASE = {"spec": {"renewTime": "2026-11-19T01:00:00.000000Z"}}


def node(manager: str = "kubelet", allocatable: str = "0", **capacity: str) -> dict[str, Any]:
    fields = {f"f:{name}": {} for name in capacity}
    return {
        "metadata": {"managedFields": [{"manager": manager, "fieldsV1": {"f:status": {"f:capacity": fields}}}]},
        "spec": {"unschedulable": True},
        "status": {
            "capacity": {**capacity, "cpu": "4"},
            "allocatable": dict.fromkeys(capacity, allocatable),
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": None},
                "nonsense",
            ],
        },
    }


def test_a_node() -> None:
    found = describe("w1", node(), LEASE, 0, ())
    assert (found.name, found.status, found.cordoned) == ("w1", 200, True)
    assert found.conditions == (Condition("Ready", "False", "KubeletNotReady", ""),)
    assert found.readiness is not None and found.readiness.reason.startswith("KubeletNotReady")


@pytest.mark.parametrize(
    ("annotations", "cordoned", "rejoining"),
    [
        ({}, True, False),
        ({REJOINING: "op"}, True, True),
        ({DRAINING: "op"}, True, True),
        ({DRAINING: "op"}, False, False),  # somebody gave that rejoin up
    ],
)
def test_a_cordon_of_a_rejoin_is_told_from_a_persons(
    annotations: dict[str, str], cordoned: bool, rejoining: bool
) -> None:
    made = node() | {"metadata": {"annotations": annotations}, "spec": {"unschedulable": cordoned}}
    assert describe("w1", made, LEASE, 0, ()).rejoining == rejoining


@pytest.mark.parametrize("broken", [{}, {"status": None, "spec": []}, {"status": {"conditions": {}}}])
def test_half_a_node(broken: dict[str, Any]) -> None:
    if "status" in broken and broken["status"] is None:
        broken = {**broken, "status": {}}
    found = describe("w1", broken, {}, 0, None)
    assert found.readiness is not None and not found.readiness.ready


@pytest.mark.parametrize(
    ("made", "registered", "left"),
    [
        (node(**{"mock.com/gpu": "10"}), (), ("mock.com/gpu=10",)),
        (node(**{"mock.com/gpu": "0"}), (), ("mock.com/gpu=0",)),
        (node(allocatable="10", **{"mock.com/gpu": "10"}), (), ()),  # a plugin lives
        (node(**{"mock.com/gpu": "10"}), ("mock.com/gpu",), ()),  # it may come back within five minutes
        (node("somebody", **{"mock.com/gpu": "10"}), (), ()),  # patched by hand
        (node(**{"mock.com/gpu": "10"}), None, ()),  # nothing is known of the plugins
    ],
)
def test_leftovers(made: dict[str, Any], registered: tuple[str, ...] | None, left: tuple[str, ...]) -> None:
    assert leftovers(made, registered) == left
