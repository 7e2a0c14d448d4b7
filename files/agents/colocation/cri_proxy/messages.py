# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Between the CRI's bytes and our values.

An edit is appended, and nothing that the kubelet wrote is touched: protobuf takes the last value of a field and merges
the parts of a message that comes in pieces, in every implementation. So fields that we do not know stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

from colocation.cri_proxy.calls import Creation, Edit, Pod, Resize, Resources
from colocation.cri_proxy.protocol import MESSAGES

_PREFIX = 5  # gRPC's, before each message: whether it is compressed, and its size
_CPUS = re.compile(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?")
_CONFIG_OF_CREATION, _LINUX_OF_CONFIG, _RESOURCES_OF_LINUX, _LINUX_OF_UPDATE = 2, 15, 1, 2
_MEMORY_LIMIT, _CPUSET_CPUS, _CPUSET_MEMS = 4, 6, 7


class Special(ValueError):
    """This is not one plain message."""


def unwrapped(body: bytes) -> bytes:
    """The one message of a gRPC body."""
    if len(body) < _PREFIX:
        raise Special("it has no message")
    if body[0]:
        raise Special("it is compressed")
    size = int.from_bytes(body[1:_PREFIX], "big")
    if len(body) != _PREFIX + size:
        raise Special("it is not one message")
    return body[_PREFIX:]


def wrapped(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def read(name: str, message: bytes) -> Any:
    """The message as protobuf's own class."""
    return MESSAGES[name].FromString(message)


def pod(config: Any) -> Pod:
    """Of a PodSandboxConfig."""
    named = config.metadata
    labels, annotations = dict(config.labels), dict(config.annotations)
    return Pod(named.uid, named.namespace, named.name, labels, annotations, config.linux.cgroup_parent)


def creation(key: int, message: bytes) -> Creation:
    """Of a CreateContainerRequest."""
    request = read("CreateContainerRequest", message)
    config = request.config
    return Creation(
        key,
        request.pod_sandbox_id,
        pod(request.sandbox_config),
        config.metadata.name,
        config.metadata.attempt,
        _resources(config.linux.resources),
        dict(config.labels),
        dict(config.annotations),
        {pair.key: pair.value.decode(errors="replace") for pair in config.envs},
    )


def resize(key: int, message: bytes) -> Resize:
    """Of an UpdateContainerResourcesRequest."""
    request = read("UpdateContainerResourcesRequest", message)
    return Resize(key, request.container_id, _resources(request.linux), dict(request.annotations))


def _resources(linux: Any) -> Resources:
    return Resources(
        linux.cpu_period,
        linux.cpu_quota,
        linux.cpu_shares,
        linux.memory_limit_in_bytes,
        linux.cpuset_cpus,
        linux.cpuset_mems,
        linux.oom_score_adj,
    )


def edited_creation(message: bytes, edit: Edit) -> bytes:
    """A CreateContainerRequest with that edit."""
    linux = _field(_LINUX_OF_CONFIG, _field(_RESOURCES_OF_LINUX, _edit(edit)))
    return message + _field(_CONFIG_OF_CREATION, linux)


def edited_resize(message: bytes, edit: Edit) -> bytes:
    """An UpdateContainerResourcesRequest with that edit."""
    return message + _field(_LINUX_OF_UPDATE, _edit(edit))


def _edit(edit: Edit) -> bytes:
    fields = b""
    if edit.memory_limit is not None:
        if not 0 <= edit.memory_limit < 1 << 63:
            raise ValueError(f"{edit.memory_limit} is no memory limit")
        fields += _varint(_MEMORY_LIMIT << 3) + _varint(edit.memory_limit)
    for number, text in ((_CPUSET_CPUS, edit.cpuset_cpus), (_CPUSET_MEMS, edit.cpuset_mems)):
        if text is not None:
            if not _CPUS.fullmatch(text):  # a runtime would refuse the container for it
                raise ValueError(f"{text!r} is no list of CPUs or memory nodes")
            fields += _field(number, text.encode())
    return fields


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
