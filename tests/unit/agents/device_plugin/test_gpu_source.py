# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The source of GPU memory on a modelled node: health, requests that are too large, several GPUs, counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.gpu_model import (
    RESOURCE,
    NodeModel,
    gpus,
)
from colocation.device_plugin.devices import NoSuchDevice, NotReady, Refused
from colocation.device_plugin.gpu_watcher import Look
from colocation.device_plugin.gpus import Gpu
from colocation.device_plugin.holders import Held

NOBODY: frozenset[str] = frozenset()


def model(count: int = 4, units: int = 16, **settings: object) -> NodeModel:
    return NodeModel(gpus(count, units), **settings)


def fall_ill(node: NodeModel, why: str, number: int = 0) -> None:
    changed = tuple(replace(gpu, ill=why) if n == number else gpu for n, gpu in enumerate(node.gpus))
    node.gpus = changed
    node.watcher.look = Look(changed)


def test_units_of_an_ill_gpu_are_unhealthy_until_it_is_well() -> None:
    node = model(2, 2)
    before = node.source.devices(NOBODY)
    assert all(device.healthy for device in before)
    assert node.source.devices(NOBODY) is before
    fall_ill(node, "XID 79")
    assert [device.healthy for device in node.source.devices(NOBODY)] == [False, False, True, True]
    assert node.cluster.told == [
        ("", "ColocationGpuIll", f"GPU {node.gpus[0].uuid} is ill: XID 79. Its pods keep running.")
    ]
    node.source.refresh(())
    assert node.cluster.counts == {"doslab.io/gpu-count": "1", "doslab.io/gpu-core": "100"}
    fall_ill(node, "")
    assert [device.id for device in node.source.devices(NOBODY)] == [device.id for device in before]
    assert node.cluster.told[-1][1] == "ColocationGpuWell"
    node.source.refresh(())
    assert node.cluster.counts == {"doslab.io/gpu-count": "2", "doslab.io/gpu-core": "200"}


def test_gpus_that_are_left_out_are_told_once() -> None:
    node = model(2, 2)
    node.watcher.look = Look(node.gpus, ("GPU number 2 can't be asked: GPU is lost",))
    node.source.devices(NOBODY)
    fall_ill(node, "XID 79")
    node.watcher.look = replace(node.watcher.look, left_out=("GPU number 2 can't be asked: GPU is lost",))
    node.source.devices(NOBODY)
    assert [told[1:] for told in node.cluster.told] == [
        ("ColocationGpuNotOffered", "Not offered: GPU number 2 can't be asked: GPU is lost."),
        ("ColocationGpuIll", f"GPU {node.gpus[0].uuid} is ill: XID 79. Its pods keep running."),
    ]


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (("{} is in MIG mode",), "Not offered: {} is in MIG mode."),
        ((), "Not offered: {}, as MIG was turned on or off."),  # its instances are listed
    ],
)
def test_mig_is_turned_on_with_an_event(left_out: tuple[str, ...], said: str) -> None:
    node = model(2, 2)
    uuid = node.gpus[0].uuid
    node.watcher.look = Look(node.gpus[1:], tuple(text.format(uuid) for text in left_out))
    assert [device.id for device in node.source.devices(NOBODY)] == ["00000001-0", "00000001-1"]
    assert node.cluster.told == [("", "ColocationGpuNotOffered", said.format(uuid))]


def test_held_units_of_a_gpu_that_is_no_more_are_unhealthy() -> None:
    """The agent was started anew while it was lost, or the unit is larger now."""
    node = model(1, 2)
    held = frozenset({"00000000-0", "00000000-2", "00000007-0"})
    assert [(device.id, device.healthy) for device in node.source.devices(held)] == [
        ("00000000-2", False),
        ("00000007-0", False),
        ("00000000-0", True),
        ("00000000-1", True),
    ]
    offered = node.source.devices(held)
    assert node.source.devices(frozenset({*held, "00000000-1"})) is offered
    fall_ill(node, "XID 79")
    assert [device.healthy for device in node.source.devices(held)] == [False] * 4
    assert [device.id for device in node.source.devices(NOBODY)] == ["00000000-0", "00000000-1"]


@pytest.mark.parametrize(("told", "numa"), [(False, [None] * 4), (True, [0, 0, 0, 0])])
def test_the_kubelet_is_told_numa_nodes_only_where_that_is_wanted(told: bool, numa: list[int | None]) -> None:
    node = model(2, 2, topology_hints=told)
    assert [device.numa for device in node.source.devices(NOBODY)] == numa


def test_a_container_is_not_started_on_an_ill_gpu() -> None:
    node = model(1)
    one = node.make((), (4,))
    chosen = list(node.source.prefer(node.free(), (), 4))
    fall_ill(node, "XID 79")
    node.source.devices(NOBODY)
    with pytest.raises(Refused, match="is ill: XID 79"):
        node.source.grant(chosen)
    assert one.phase == "Pending"


def test_nothing_is_offered_before_the_gpus_were_seen() -> None:
    node = model()
    node.watcher.look, node.watcher.problem = None, "there is no NVIDIA driver"
    node.source.catalog = None
    with pytest.raises(NotReady, match="there is no NVIDIA driver"):
        node.source.devices(NOBODY)
    with pytest.raises(Refused, match="is not offered: there is no NVIDIA driver"):
        node.source.grant(["00000000-0"])


def test_the_wrong_unit_is_refused_with_one_that_would_do() -> None:
    node = NodeModel(tuple(Gpu(f"GPU-{number}", 81920) for number in range(8)), offered=False)
    with pytest.raises(NotReady, match="set unit_mib to 32 or more, on all nodes"):
        node.source.devices(NOBODY)
    with pytest.raises(Refused, match="is not offered: units of 4 MiB would make .* set unit_mib to 32 or more"):
        node.source.grant(["00000000-0"])


def test_a_list_that_is_refused_holds_nobodys_health_back() -> None:
    node = model(2, 2)
    before = node.source.devices(NOBODY)
    large = Gpu("GPU-large", 81920)
    node.watcher.look = Look((replace(node.gpus[0], ill="XID 79"), node.gpus[1], large))
    offered = node.source.devices(NOBODY)
    assert [device.id for device in offered] == [device.id for device in before]
    assert [device.healthy for device in offered] == [False, False, True, True]
    assert [reason for _pod, reason, _message in node.cluster.told] == ["ColocationGpuIll"]
    assert "set unit_mib to 32 or more" in node.source.complaint
    assert node.source.devices(NOBODY) is offered
    with pytest.raises(Refused, match="is ill: XID 79"):
        node.source.grant([offered[0].id])
    node.watcher.look = Look((large,))
    assert not any(device.healthy for device in node.source.devices(NOBODY))
    node.watcher.look = Look(node.gpus)
    assert node.source.devices(NOBODY) == before
    assert node.source.complaint == ""


def test_a_request_larger_than_any_gpu_is_an_event_on_the_pod() -> None:
    node = model()
    one = node.make((), (17,))
    said = node.admit(one)
    assert "17 units (68 MiB) are more than any GPU of this node has; the largest has 16 (64 MiB)" in said
    ((pod, reason, message),) = node.cluster.told
    assert (pod, reason) == ("pod-0", "ColocationGpuRequestTooLarge")
    assert message == f"{said}."


def test_several_gpus_where_that_is_allowed() -> None:
    node = model(allow_multi_gpu=True)
    one = node.make((), (20,))
    assert node.admit(one) == ""
    given = {node.gpu_of(id).uuid for id in one.held["c0"]}
    assert set(one.granted["c0"].environment["NVIDIA_VISIBLE_DEVICES"].split(",")) == given
    assert len(given) == 2


def test_units_of_two_gpus_are_refused_where_it_is_not() -> None:
    node = model()
    node.make((), (2,))
    with pytest.raises(Refused, match="2 units are of several GPUs"):
        node.source.grant(["00000000-0", "00000001-0"])
    with pytest.raises(NoSuchDevice):
        node.source.grant(["00000000-0", "00000000-99"])


def test_amounts_that_nobody_asked_for_are_refused() -> None:
    node = model()
    node.make((), (2,))
    with pytest.raises(Refused, match=f"no pod of this node waits for 3 units of {RESOURCE}"):
        node.source.grant([f"00000000-{number}" for number in range(3)])


def test_a_namesake_of_a_pod_that_holds_units_may_have_its_own() -> None:
    """PodResources knows names only; a StatefulSet's next pod has the name of the last."""
    node = model()
    one = node.make((), (4,))
    node.source.refresh((Held(RESOURCE, "c0", ("00000003-1",), "", "n", "pod-0"),))
    assert node.admit(one) == ""


def test_without_a_kubeconfig_ids_alone_decide() -> None:
    node = model()
    node.source.cluster = None
    chosen = node.source.prefer(node.free(), (), 4)
    environment = node.source.grant(chosen).environment
    assert environment["NVIDIA_VISIBLE_DEVICES"] == node.gpus[0].uuid
    assert "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD" not in environment
