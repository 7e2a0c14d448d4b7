# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What containers want, by what the kubelet and their pods say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.containers import (
    BURSTABLE,
    GUARANTEED,
    pod,
    resources,
    said,
)
from colocation.common.config import load
from colocation.cri_proxy.calls import Resources
from colocation.cri_proxy.config import Config
from colocation.cri_proxy.placement import Shape
from colocation.cri_proxy.wishes import limited_milli, read, requested_milli


def config(text: str = "") -> Config:
    return load(Config, text, "test.cfg")


@given(st.integers(3, 255_000))
def test_the_request_is_read_back_from_the_shares(milli: int) -> None:
    assert requested_milli(max(2, milli * 1024 // 1000)) == milli


@given(st.integers(10, 500_000), st.sampled_from([10_000, 100_000, 1_000_000]))
def test_the_limit_is_read_back_from_the_quota(milli: int, period: int) -> None:
    assert limited_milli(Resources(period, milli * period // 1000)) == milli


@pytest.mark.parametrize("shares", [0, 1, 2, -5])
def test_the_least_shares_are_no_request(shares: int) -> None:
    assert requested_milli(shares) == 0


@pytest.mark.parametrize("wanted", [Resources(), Resources(0, 5), Resources(100_000, -1), Resources(-1, 5)])
def test_no_quota_is_no_limit(wanted: Resources) -> None:
    assert limited_milli(wanted) == 0


@pytest.mark.parametrize(
    ("text", "annotations", "milli"),
    [
        ("", {}, 1500),
        ("{placement: {cpus: limit}}", {}, 6000),
        ("", {"cri-resmgr/cpus": "limit"}, 6000),
        ("{placement: {cpus: limit}}", {"cri-resmgr/cpus": "request"}, 1500),
        ("", {"cri-resmgr/cpus": "12.5"}, 12500),
        ("", {"cri-resmgr/cpus": "3", "cri-resmgr/cpus.main": "4"}, 4000),
        ("", {"cri-resmgr/cpus.other": "4"}, 1500),
    ],
)
def test_what_counts_is_request_limit_or_the_pods_word(text: str, annotations: dict[str, str], milli: int) -> None:
    assert read(said(resources(1.5, 6), pod(annotations=annotations)), config(text)).want.milli == milli


def test_without_a_limit_the_request_counts() -> None:
    assert read(said(resources(2)), config("{placement: {cpus: limit}}")).want.milli == 2000


def test_pods_choose_their_shape_or_none() -> None:
    assert read(said(resources(1), pod(annotations={"cri-resmgr/placement": "Two-NUMA"})), config()).want.shape is (
        Shape.TWO_NUMA
    )
    assert not read(said(resources(1), pod(annotations={"cri-resmgr/placement": "none"})), config()).pinned


@pytest.mark.parametrize(
    "annotations",
    [
        {"cri-resmgr/placement": "near"},
        {"cri-resmgr/cpus": "-1"},
        {"cri-resmgr/cpus": "nan"},
        {"cri-resmgr/numa": "first"},
        {"cri-resmgr/numa": "99999999"},
        {"cri-resmgr/placement": "x" * 5000},
    ],
)
def test_annotations_that_say_nothing_are_told_and_change_nothing(annotations: dict[str, str]) -> None:
    wish = read(said(resources(1), pod(annotations=annotations)), config())
    assert len(wish.mistakes) == 1
    assert wish.want == read(said(resources(1)), config()).want and wish.pinned


def test_the_systems_namespace_is_exempt_unless_it_is_not() -> None:
    system = said(resources(1), pod(namespace="kube-system"))
    assert not read(system, config()).pinned
    assert read(system, config("{placement: {exempt_namespaces: []}}")).pinned
    reserved = config("{policy: {topology-aware: {ReservedPoolNamespaces: [kube-system]}}}")
    assert read(system, reserved).on_reserved and read(system, reserved).pinned


def test_pin_cpu_off_pins_nobody() -> None:
    assert not read(said(resources(1)), config("{policy: {topology-aware: {PinCPU: false}}}")).pinned


def test_holders_of_blocks_are_batch_near_their_memory() -> None:
    listed = "CM-0-1,CM-2-17,CM-2-3"
    for one, size in (
        (said(resources(), environment={"TEST_COM_COLOCATION_MEMORY": listed}), 3 * 512 << 20),
        (said(resources(), annotations={"colocation-memory/blocks": listed, "colocation-memory/bytes": "777"}), 777),
        (said(resources(), annotations={"colocation-memory/blocks": listed, "colocation-memory/bytes": "x"}), 3 << 29),
        (said(resources(), annotations={"colocation-memory/blocks": listed},
              environment={"COLOCATION_MEMORY_BYTES": "888"}), 888),
    ):  # fmt: skip
        wish = read(one, config("{blocks: {per_numa_node: true}}"))
        assert wish.want.batch and wish.want.devices == 0b101 and wish.blocks == size
        assert read(one, config()).want.devices == 0  # all of the memory is one then, and is called 0


def test_what_is_no_list_of_blocks_is_none() -> None:
    for environment in ({"TEST_COM_COLOCATION_MEMORY": "lots"}, {"COLOCATION_MEMORY_BYTES": "1000"}):
        wish = read(said(resources(), environment=environment), config())
        assert not wish.want.batch and wish.blocks == 0


@pytest.mark.parametrize(
    ("wanted", "parent", "alone"),
    [
        (resources(4, 4), GUARANTEED, 4),
        (resources(4, 4), "/kubepods/pod1", 4),
        (resources(4, 4), BURSTABLE, 0),
        (resources(4, 4), "/kubepods/besteffort/pod1", 0),
        (resources(4, 4), "", 0),
        (resources(4, 5), GUARANTEED, 0),
        (resources(1.5, 1.5), GUARANTEED, 0),
        (resources(), GUARANTEED, 0),
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_held_alone_where_that_is_wanted(
    wanted: Resources, parent: str, alone: int
) -> None:
    one = said(wanted, pod(parent=parent))
    assert read(one, config("{placement: {exclusive: true}}")).want.alone == alone
    assert read(one, config()).want.alone == 0


@given(
    st.dictionaries(st.sampled_from(["placement", "cpus", "numa", "cpus.main"]).map("cri-resmgr/".__add__), st.text())
)
def test_any_annotation_leaves_a_wish(annotations: dict[str, str]) -> None:
    assert read(said(resources(1), pod(annotations=annotations)), config()).want.milli >= 0
