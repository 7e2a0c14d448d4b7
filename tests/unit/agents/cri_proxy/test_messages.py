# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Requests are read, and an edit changes its fields and nothing else, in both of protobuf's implementations."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colocation
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import NEWER, creation, update
from colocation.cri_proxy import messages
from colocation.cri_proxy.calls import Edit, Pod, Resources

EDIT = Edit(cpuset_cpus="4-7,12", cpuset_mems="0", memory_limit=(1 << 40) + 5)
WISH = Resources(100_000, 400_000, 4096, 1 << 30, "0-63", "", 900)


def edited(message: Any, edit: Edit) -> Any:
    """What the runtime should see."""
    resources = message.config.linux.resources if hasattr(message, "config") else message.linux
    for name, value in (
        ("cpuset_cpus", edit.cpuset_cpus),
        ("cpuset_mems", edit.cpuset_mems),
        ("memory_limit_in_bytes", edit.memory_limit),
    ):
        if value is not None:
            setattr(resources, name, value)
    return message


def test_a_creation_is_read() -> None:
    found = messages.creation(7, creation().SerializeToString())
    assert (found.key, found.sandbox_id, found.container, found.attempt) == (7, "s-1", "main", 3)
    assert found.pod == Pod("u-1", "shop", "web-0", {"app": "web"}, {"colocation/hint": "near"}, "kubepods.slice")
    assert found.resources == WISH
    assert found.labels == {"io.kubernetes.pod.uid": "u-1"}
    assert found.annotations == {"io.kubernetes.container.hash": "1234"}
    assert found.environment == {"BLOCKS": "CM-0-1", "BYTES": "\ufffd/"}


def test_a_resize_is_read() -> None:
    found = messages.resize(8, update().SerializeToString())
    assert (found.key, found.container_id, found.resources) == (8, "c-1", WISH)
    assert found.annotations == {"why": "resize"}


def test_an_edited_creation_differs_in_what_was_edited() -> None:
    made = messages.edited_creation(creation().SerializeToString(), EDIT)
    assert NEWER["CreateContainerRequest"].FromString(made) == edited(creation(), EDIT)


def test_an_edited_resize_differs_in_what_was_edited() -> None:
    made = messages.edited_resize(update().SerializeToString(), EDIT)
    assert NEWER["UpdateContainerResourcesRequest"].FromString(made) == edited(update(), EDIT)


cpus = st.none() | st.sampled_from(["", "0", "0-3", "0-3,8-11,255"])


@given(cpus, cpus, st.none() | st.integers(0, 2**63 - 1))
def test_any_edit(cpus: str | None, mems: str | None, memory: int | None) -> None:
    edit = Edit(cpus, mems, memory)
    made = messages.edited_creation(creation().SerializeToString(), edit)
    assert NEWER["CreateContainerRequest"].FromString(made) == edited(creation(), edit)


def test_a_creation_without_resources_gets_them() -> None:
    request = NEWER["CreateContainerRequest"](pod_sandbox_id="s")
    made = messages.edited_creation(request.SerializeToString(), EDIT)
    assert NEWER["CreateContainerRequest"].FromString(made) == edited(request, EDIT)
    assert messages.creation(1, b"").resources == Resources()


REFUSED = [
    Edit(cpuset_cpus="0-"),
    Edit(cpuset_cpus="a"),
    Edit(cpuset_cpus="0\n"),
    Edit(cpuset_mems="0;1"),
    Edit(memory_limit=-1),
    Edit(memory_limit=1 << 63),
]


@pytest.mark.parametrize("edit", REFUSED, ids=str)
def test_an_edit_that_a_runtime_would_refuse_is_an_error(edit: Edit) -> None:
    with pytest.raises(ValueError, match="is no"):
        messages.edited_creation(b"", edit)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no message"),
        (b"\0\0\0\0", "no message"),
        (b"\1\0\0\0\1a", "compressed"),
        (b"\0\0\0\0\1", "not one"),
        (b"\0\0\0\0\1a\0\0\0\0\0", "not one"),
    ],
)
def test_bodies_that_are_not_one_plain_message(body: bytes, why: str) -> None:
    with pytest.raises(messages.Special, match=why):
        messages.unwrapped(body)


@given(st.binary(max_size=200))
def test_wrapping(message: bytes) -> None:
    assert messages.unwrapped(messages.wrapped(message)) == message


def test_the_other_implementation_of_protobuf_agrees() -> None:
    """Python's own, where the node's architecture or Python has no compiled one."""
    source = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(colocation.__file__))!r})
from colocation.cri_proxy import messages
from colocation.cri_proxy.calls import Edit
from google.protobuf.internal import api_implementation
assert api_implementation.Type() == "python"
message = bytes.fromhex(sys.stdin.read())
found = messages.creation(7, message)
assert found.resources.cpuset_cpus == "0-63", found
print(messages.read("CreateContainerRequest", messages.edited_creation(message, Edit("4-7"))).SerializeToString().hex())
"""
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    sent = creation().SerializeToString().hex()
    done = subprocess.run(
        [sys.executable, "-c", source], input=sent, capture_output=True, check=True, env=environment, text=True
    )
    assert NEWER["CreateContainerRequest"].FromString(bytes.fromhex(done.stdout)) == edited(creation(), Edit("4-7"))
