# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""GPUs as devices: names, units, and what is too much for the kubelet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin import gpus
from colocation.device_plugin.devices import MOST_MESSAGE, NoSuchDevice
from colocation.device_plugin.gpus import MOST_UNITS, Catalog, Gpu, complaint, least_unit, namesakes, parse
from colocation.device_plugin.protocol import encode_devices

A = Gpu("GPU-9b341c59-f96b-ba85-c137-78c3652fea65", 81920, "H100", 0)
B = Gpu("GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841", 40960, "A100", 1, "broken")


def test_a_device_says_which_gpu_it_is_of() -> None:
    catalog = Catalog((A, B), 20480)
    assert [(d.id, d.healthy, d.numa) for d in catalog.devices(hints=True)] == [
        ("9b341c59-0", True, 0),
        ("9b341c59-1", True, 0),
        ("9b341c59-2", True, 0),
        ("9b341c59-3", True, 0),
        ("c1e9f249-0", False, 1),
        ("c1e9f249-1", False, 1),
    ]
    assert {d.numa for d in catalog.devices(hints=False)} == {None}
    assert catalog.of(["c1e9f249-1", "9b341c59-3"]) == (A, B)
    assert catalog.with_uuid(B.uuid) is B


@pytest.mark.parametrize("id", ["9b341c59-4", "9b341c59", "9b341c59-01", "9b341c59--1", "00000000-0", "CM-0-1", ""])
def test_what_is_no_device(id: str) -> None:
    with pytest.raises(NoSuchDevice, match="no unit of a GPU"):
        Catalog((A,), 20480).of([id])


@pytest.mark.parametrize("uuid", ["GPU-0", "MIG-GPU-9b341c59-f96b-ba85-c137-78c3652fea65/7/0", "GPU-9B341C59-x", "x"])
def test_other_uuids_have_a_hash_for_a_name(uuid: str) -> None:
    gpu = Gpu(uuid, 10)
    assert parse(f"{gpu.code}-9") == (gpu.code, 9)
    assert gpu.code == Gpu(uuid, 20).code != Gpu(uuid + "1", 10).code


def test_two_that_can_not_be_told_apart() -> None:
    other = Gpu(A.uuid[:-1] + "6", 81920)
    assert namesakes((A, B, other)) == (other.uuid,)


@given(
    st.lists(st.integers(64, 1 << 18), min_size=1, max_size=16),
    st.booleans(),
)
def test_the_least_unit_fits_and_half_of_it_does_not(memories: list[int], several: bool) -> None:
    unit = least_unit(memories, several)
    assert gpus.fits(memories, unit, several)
    assert unit == 1 or not gpus.fits(memories, unit // 2, several)
    made = tuple(Gpu(f"GPU-{number}", memory, numa=1) for number, memory in enumerate(memories))
    catalog = Catalog(made, unit)
    assert len(encode_devices(catalog.devices(hints=True))) <= MOST_MESSAGE
    counts = [catalog.units(gpu) for gpu in made]
    assert (sum(counts) if several else max(counts)) <= MOST_UNITS


def test_eight_large_ones_in_mib_are_refused_with_the_unit_that_would_do() -> None:
    eight = tuple(Gpu(f"GPU-{number}", 81920) for number in range(8))
    said = complaint(Catalog(eight, 1), several=False)
    assert "655360 devices of this node's 8 GPUs" in said
    assert "set unit_mib to 32 or more, on all nodes" in said
    assert not complaint(Catalog(eight, 32), several=False)
    assert "set unit_mib to 256 or more" in complaint(Catalog(eight, 32), several=True)
    assert len(encode_devices(Catalog(eight, 1).devices(hints=True))) > MOST_MESSAGE


def test_a_unit_larger_than_a_gpu_is_refused() -> None:
    assert "set unit_mib to 40960 or less" in complaint(Catalog((A, B), 65536), several=False)
