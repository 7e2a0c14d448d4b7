# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reading what a kubelet says: protobuf, header blocks, checkpoints. Any bytes give a value or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._checkpoint import (
    CheckpointError,
    Entry,
    fnv1a,
    parse_checkpoint,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._device_report import count_resources, join
from ansible_collections.colocation.kubernetes.plugins.module_utils._hpack_read import HeaderReader, HpackError
from ansible_collections.colocation.kubernetes.plugins.module_utils._pod_resources import Held, read_grant, read_list
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import ProtobufError, number

GPU = "mock.com/gpu"


def field(place: int, content: bytes | int) -> bytes:
    """A field as protobuf writes it."""

    def varint(value: int) -> bytes:
        value &= (1 << 64) - 1
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    if isinstance(content, int):
        return varint(place << 3) + varint(content)
    return varint(place << 3 | 2) + varint(len(content)) + content


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 1000))
def test_whole_numbers(value: int, place: int) -> None:
    assert number(field(place, value), place) == value and number(b"", place) == 0


@given(st.text(max_size=300), st.text(max_size=20), st.text(max_size=20), st.integers(-1, 8))
def test_a_list_with_fields_from_the_future(pod: str, device: str, resource: str, node: int) -> None:
    unknown = field(99, b"new") + field(98, 7) + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh"  # two of fixed size
    topology = field(3, field(1, field(1, node)))
    devices = field(1, resource.encode()) + field(2, device.encode()) + topology + unknown
    container = field(1, b"main") + field(2, devices) + unknown
    answer = field(1, unknown + field(1, pod.encode()) + field(2, b"ns") + field(3, container))
    assert read_list(answer) == [Held("ns", pod, "main", resource, {device: (node,)})]
    for cut in range(1, len(answer)):
        with pytest.raises(ProtobufError):
            read_list(answer[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(content: bytes) -> None:
    for read in (read_list, read_grant):
        try:
            read(content)
        except ProtobufError as problem:
            assert str(problem)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_are_header_blocks_or_an_error(blocks: list[bytes]) -> None:
    reader = HeaderReader()
    try:
        for block in blocks:
            reader.read(block)
    except HpackError as problem:
        assert str(problem)


def test_header_blocks_of_the_standard() -> None:
    """The examples of RFC 7541, C.6: three answers on one connection, Huffman-coded, with a table of 256 bytes."""
    reader = HeaderReader()
    reader.read(b"\x3f\xe1\x01")  # the table's size, 256
    first = bytes.fromhex(
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert reader.read(first) == [
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ]
    assert reader.read(bytes.fromhex("4883640effc1c0bf"))[0] == (":status", "307")
    third = bytes.fromhex(
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af"
        "27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
    )
    assert reader.read(third)[-1] == (
        "set-cookie",
        "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    )


def test_fnv_1a() -> None:
    assert (fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")) == (0x811C9DC5, 0xE40C292C, 0xBF9CF968)


def checkpoint(**data: Any) -> bytes:
    return json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}, **data}, "Checksum": 1}).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b"\xff\xfe\x00", "no text"),
        (b'{"Data":{"PodDev', "cut off"),
        (b"[]", "the file is no JSON object"),
        (b"{}", "Data is no JSON object"),
        (b'{"Data":{}}', "Checksum is no number"),
        (b'{"Data":{},"Checksum":true}', "Checksum is no number"),
        (b"[" * 100000, "nested too deeply"),
        (checkpoint(PodDeviceEntries={}), "PodDeviceEntries is no list"),
        (checkpoint(PodDeviceEntries=[1]), "PodDeviceEntries[0] is no JSON object"),
        (checkpoint(PodDeviceEntries=[{"PodUID": 1}]), "holds what is no text"),
        (checkpoint(PodDeviceEntries=[{"DeviceIDs": "x"}]), "DeviceIDs is no JSON object"),
        (checkpoint(PodDeviceEntries=[{"DeviceIDs": {"x": []}}]), "DeviceIDs: 'x'"),
        (checkpoint(PodDeviceEntries=[{"DeviceIDs": {"0": [1]}}]), "DeviceIDs[0] holds"),
        (checkpoint(PodDeviceEntries=[{"AllocResp": "%"}]), "not base64"),
        (checkpoint(PodDeviceEntries=[{"AllocResp": 7}]), "not base64"),
        (checkpoint(PodDeviceEntries=[{"DeviceIDs": {}}, {"DeviceIDs": []}]), "both formats"),
        (checkpoint(RegisteredDevices=[]), "RegisteredDevices is no JSON object"),
        (checkpoint(RegisteredDevices={"a": 1}), "RegisteredDevices[a] is no list"),
    ],
)
def test_damaged_checkpoints_say_where(content: bytes, told: str) -> None:
    with pytest.raises(CheckpointError) as problem:
        parse_checkpoint(content)
    assert told in str(problem.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["PodUID", "DeviceIDs", "AllocResp", "0", "-1", "x", "PodDeviceEntries", "RegisteredDevices"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values, json_values)
def test_any_json_is_a_checkpoint_or_an_error(entries: Any, registered: Any) -> None:
    try:
        parse_checkpoint(checkpoint(PodDeviceEntries=entries, RegisteredDevices=registered))
    except CheckpointError as problem:
        assert str(problem)


def test_devices_are_joined_with_what_pods_were_given() -> None:
    held = [Held("ns", "new", "main", GPU, {"g0": (0,)}), Held("ns", "old", "main", GPU, {"g1": (1,), "g2": ()})]
    entries = [
        Entry("uid-stale", "main", GPU, {0: ("g0", "g9")}, b""),
        Entry("uid-new", "main", GPU, {0: ("g0",)}, b"\xff"),
        Entry("uid-old", "main", GPU, {-1: ("g1",)}, b""),
    ]
    joined = {one["pod_uid"]: one for one in join(held, entries)}
    assert joined["uid-new"]["pod"] == "new" and "can't be read" in joined["uid-new"]["problem"]
    assert joined["uid-old"]["pod"] == "old"  # one of its devices is enough
    assert joined["uid-stale"]["sources"] == ["checkpoint"]
    assert count_resources(joined.values(), None) == [{"name": GPU, "registered": None, "allocated": 4, "free": None}]
