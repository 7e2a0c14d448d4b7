# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Devices: their names, their size on the wire, what a container gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.devices import (
    FRAME,
    MOST_MESSAGE,
    Device,
    Grant,
    MockSource,
    NoSuchDevice,
    NotReady,
    Options,
    digits,
    keep_held,
    too_large,
    variable_name,
)
from colocation.device_plugin.protocol import (
    MESSAGES,
    Preference,
    decode_allocation,
    decode_preferences,
    decode_start,
    encode_devices,
    encode_grants,
    encode_options,
    encode_preferences,
    encode_registration,
)

NONE: frozenset[str] = frozenset()
TEXT = st.text(st.characters(codec="utf-8"))
DEVICES = st.lists(st.builds(Device, TEXT.filter(bool), st.booleans(), st.none() | st.integers(0, 2**31)), max_size=20)


LONG = st.builds(Device, st.text(min_size=100, max_size=300), st.booleans(), st.none() | st.integers(0, 2**62))


@given(DEVICES | st.lists(LONG, max_size=5))
def test_a_list_is_encoded_as_protobuf_does(devices: list[Device]) -> None:
    message = MESSAGES["ListAndWatchResponse"]()
    for device in devices:
        added = message.devices.add(ID=device.id, health="Healthy" if device.healthy else "Unhealthy")
        if device.numa is not None:
            added.topology.nodes.add(ID=device.numa)
    assert encode_devices(devices) == message.SerializeToString(deterministic=True)


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
    grants = [Grant({"A": "1"}, {"b": "2"}), Grant(), Grant(cdi=("nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"))]
    answer = MESSAGES["AllocateResponse"].FromString(encode_grants(grants))
    assert [
        Grant(dict(part.envs), dict(part.annotations), tuple(device.name for device in part.cdi_devices))
        for part in answer.container_responses
    ] == grants
    request = MESSAGES["RegisterRequest"].FromString(encode_registration("a.sock", "mock.com/gpu", Options()))
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "a.sock", "mock.com/gpu")
    assert request.HasField("options")


@pytest.mark.parametrize("options", [Options(), Options(prefers=True), Options(starts=True), Options(True, True)])
def test_the_kubelet_is_told_which_calls_are_answered(options: Options) -> None:
    message = MESSAGES["DevicePluginOptions"].FromString(encode_options(options))
    assert Options(message.get_preferred_allocation_available, message.pre_start_required) == options
    registration = MESSAGES["RegisterRequest"].FromString(encode_registration("a.sock", "mock.com/gpu", options))
    assert registration.options == message


def test_questions_and_answers_about_preferences_and_starts_arrive() -> None:
    part = {"available_deviceIDs": ["a", "b"], "must_include_deviceIDs": ["b"], "allocation_size": 2}
    request = MESSAGES["PreferredAllocationRequest"](container_requests=[part, {}])
    assert decode_preferences(request.SerializeToString()) == (
        Preference(("a", "b"), ("b",), 2),
        Preference((), (), 0),
    )
    answer = MESSAGES["PreferredAllocationResponse"].FromString(encode_preferences([["b", "a"], []]))
    assert [list(one.deviceIDs) for one in answer.container_responses] == [["b", "a"], []]
    assert decode_start(MESSAGES["PreStartContainerRequest"](devices_ids=["a"]).SerializeToString()) == ("a",)


def test_200_000_devices_with_short_names_fit_and_more_name_a_larger_unit() -> None:
    def refused(devices: list[Device]) -> str | None:
        content = encode_devices(devices)
        return too_large(len(devices), len(content), MockSource("mock.com/gpu", 0).larger_unit)

    assert refused([Device(str(n)) for n in range(200_000)]) is None
    many = [Device(f"mock.com_gpu-{n}") for n in range(300_000)]
    assert len(encode_devices(many)) > 2 * MOST_MESSAGE
    assert "make the unit of this resource 3 times as large" in str(refused(many))


def test_mock_devices_have_short_names_where_they_must() -> None:
    source = MockSource("mock.com/gpu", 200_000)
    devices = source.devices(NONE)
    assert len({device.id for device in devices}) == 200_000
    assert {len(device.id) for device in devices} == {4, 5, 6, 7}
    assert len(encode_devices(devices)) <= MOST_MESSAGE
    assert devices == MockSource("mock.com/gpu", 200_001).devices(NONE)[:200_000]
    assert not set(devices) & set(MockSource("mock/gpu", 200_000).devices(NONE))
    assert FRAME + len("abc") == len(encode_devices([Device("abc")]))


def test_more_mock_devices_than_fit_are_not_even_made() -> None:
    source = MockSource("mock.com/gpu", 1_000_000)
    with pytest.raises(NotReady, match="1000000 devices make a list of 19952012 bytes") as refused:
        source.devices(NONE)
    fitting = MockSource("mock.com/gpu", 200_000).devices(NONE)
    told = 200_000 * (FRAME + 3) + digits(200_000, 36)
    assert told == len(encode_devices(fitting))
    assert "times as large" in str(refused.value)


@given(st.integers(0, 3000))
def test_digits_of_all_numbers_below(count: int) -> None:
    assert digits(count) == sum(len(str(number)) for number in range(count))


HELD = st.frozensets(st.sampled_from("abcdefgh"))


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), HELD)
def test_a_device_that_is_held_stays_on_the_list(ids: list[str], held: frozenset[str]) -> None:
    kept = keep_held(tuple(Device(id) for id in ids), held)
    assert {device.id for device in kept} == held | set(ids)
    assert len(kept) == len({device.id for device in kept})
    assert [device.id for device in kept if device.id in ids] == ids
    assert all(device.healthy for device in kept)


def test_a_list_that_has_all_that_is_held_is_not_copied() -> None:
    devices = MockSource("mock.com/gpu", 3).devices(frozenset())
    assert keep_held(devices, frozenset({"mock.com_gpu-1"})) is devices


def test_mock_devices_have_stable_names_that_no_other_resource_has() -> None:
    one, other = MockSource("mock.com/gpu", 3), MockSource("mock/gpu", 3)
    assert [device.id for device in one.devices(NONE)] == ["mock.com_gpu-0", "mock.com_gpu-1", "mock.com_gpu-2"]
    assert one.devices(NONE) == MockSource("mock.com/gpu", 4).devices(NONE)[:3]
    assert not {d.id for d in one.devices(NONE)} & {d.id for d in other.devices(NONE)}
    assert MockSource("mock.com/gpu", 0).devices(NONE) == ()


def test_a_container_is_told_its_devices() -> None:
    grant = MockSource("mock.com/gpu", 3).grant(["mock.com_gpu-2", "mock.com_gpu-0"])
    assert dict(grant.environment) == {"MOCK_COM_GPU": "mock.com_gpu-2,mock.com_gpu-0"}
    with pytest.raises(NoSuchDevice, match="mock.com/gpu has no device mock.com_gpu-3"):
        MockSource("mock.com/gpu", 3).grant(["mock.com_gpu-0", "mock.com_gpu-3"])
    assert variable_name("a-b.c/d_e") == "A_B_C_D_E"
