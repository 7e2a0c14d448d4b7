# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Devices: their names, their size on the wire, what a container gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.devices import (
    MOST_MESSAGE,
    Device,
    Grant,
    MockSource,
    NoSuchDevice,
    encoded_size,
    too_large,
    variable_name,
)
from colocation.device_plugin.protocol import (
    MESSAGES,
    decode_allocation,
    encode_devices,
    encode_grants,
    encode_registration,
)

TEXT = st.text(st.characters(codec="utf-8"))
DEVICES = st.lists(st.builds(Device, TEXT.filter(bool), st.booleans(), st.none() | st.integers(0, 2**31)), max_size=20)


@given(DEVICES)
def test_the_size_is_known_before_a_list_is_encoded(devices: list[Device]) -> None:
    assert encoded_size(devices) == len(encode_devices(devices))


@given(DEVICES)
def test_a_list_arrives_as_it_was(devices: list[Device]) -> None:
    message = MESSAGES["ListAndWatchResponse"].FromString(encode_devices(devices))
    arrived = [
        Device(d.ID, d.health == "Healthy", d.topology.nodes[0].ID if d.HasField("topology") else None)
        for d in message.devices
    ]
    assert arrived == devices


@given(st.lists(st.lists(TEXT, max_size=4), max_size=4))
def test_an_allocation_is_read_container_by_container(containers: list[list[str]]) -> None:
    parts = [{"devices_ids": ids} for ids in containers]
    content = MESSAGES["AllocateRequest"](container_requests=parts).SerializeToString()
    assert decode_allocation(content) == tuple(tuple(ids) for ids in containers)


def test_grants_and_registrations_arrive_as_they_were() -> None:
    answer = MESSAGES["AllocateResponse"].FromString(encode_grants([Grant({"A": "1"}, {"b": "2"}), Grant()]))
    assert [(dict(c.envs), dict(c.annotations)) for c in answer.container_responses] == [
        ({"A": "1"}, {"b": "2"}),
        ({}, {}),
    ]
    request = MESSAGES["RegisterRequest"].FromString(encode_registration("a.sock", "mock.com/gpu"))
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "a.sock", "mock.com/gpu")
    assert request.HasField("options")


def test_200_000_devices_with_short_names_fit_and_more_name_a_larger_unit() -> None:
    assert too_large([Device(str(n)) for n in range(200_000)]) is None
    many = [Device(f"mock.com_gpu-{n}") for n in range(300_000)]
    assert encoded_size(many) > 2 * MOST_MESSAGE
    assert "make the unit of this resource 3 times as large" in str(too_large(many))


def test_mock_devices_have_stable_names_that_no_other_resource_has() -> None:
    one, other = MockSource("mock.com/gpu", 3), MockSource("mock/gpu", 3)
    assert [device.id for device in one.devices()] == ["mock.com_gpu-0", "mock.com_gpu-1", "mock.com_gpu-2"]
    assert one.devices() == MockSource("mock.com/gpu", 4).devices()[:3]
    assert not {d.id for d in one.devices()} & {d.id for d in other.devices()}
    assert MockSource("mock.com/gpu", 0).devices() == ()


def test_a_container_is_told_its_devices() -> None:
    grant = MockSource("mock.com/gpu", 3).grant(["mock.com_gpu-2", "mock.com_gpu-0"])
    assert dict(grant.environment) == {"MOCK_COM_GPU": "mock.com_gpu-2,mock.com_gpu-0"}
    with pytest.raises(NoSuchDevice, match="mock.com/gpu has no device mock.com_gpu-3"):
        MockSource("mock.com/gpu", 3).grant(["mock.com_gpu-0", "mock.com_gpu-3"])
    assert variable_name("a-b.c/d_e") == "A_B_C_D_E"
