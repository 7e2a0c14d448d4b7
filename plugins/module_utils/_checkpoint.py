# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelet's device checkpoint (kubelet_internal_checkpoint): who was given which device, and what is registered.

Two formats: since Kubernetes 1.20 the devices of an entry lie in a map by NUMA node (-1: none is known), before that in
a list. The checksum is FNV-1a over the text that the Go library spew makes of the data, type names included; both
formats hash under the same names. A kubelet that finds it wrong starts with nothing, so we say so and trust nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

NUMA, LIST, NONE = "numa", "list", "none"
NO_NUMA = -1


class CheckpointError(ValueError):
    """The file is no checkpoint, or half of one; the text says where it breaks."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Devices that one container was given."""

    pod_uid: str
    container: str
    resource: str
    devices: Mapping[int, tuple[str, ...]]  # IDs by NUMA node
    response: bytes  # the device plugin's answer to Allocate


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint."""

    entries: tuple[Entry, ...]
    registered: Mapping[str, tuple[str, ...]]  # healthy devices by resource
    form: str  # NUMA, LIST, or NONE where there is no entry to tell it from
    checksum: int
    computed: int

    @property
    def intact(self) -> bool:
        return self.checksum == self.computed


def parse_checkpoint(content: bytes) -> Checkpoint:
    """A checkpoint from the file's bytes, or CheckpointError."""
    try:
        document = json.loads(content)
    except UnicodeDecodeError:
        raise CheckpointError("it is no text") from None
    except RecursionError:
        raise CheckpointError("it is nested too deeply") from None
    except ValueError as problem:
        where = getattr(problem, "pos", 0)
        what = "it is empty" if not content.strip() else f"it is no JSON from character {where} of {len(content)} on"
        raise CheckpointError(f"{what}; it was cut off or overwritten") from None
    document = _object(document, "the file")
    data = _object(document.get("Data"), "Data")
    checksum = document.get("Checksum")
    if not isinstance(checksum, int) or isinstance(checksum, bool):
        raise CheckpointError("Checksum is no number")
    listed = data.get("PodDeviceEntries")
    entries = tuple(_entry(raw, number) for number, raw in enumerate(_list(listed, "PodDeviceEntries")))
    form = _form(listed or [])
    registered = data.get("RegisteredDevices")
    devices = {
        name: tuple(_texts(ids, f"RegisteredDevices[{name}]"))
        for name, ids in _object({} if registered is None else registered, "RegisteredDevices").items()
    }
    computed = fnv1a(_spew_data(listed, registered, form).encode("utf-8", "surrogatepass"))
    return Checkpoint(entries, devices, form, checksum, computed)


def _form(entries: Sequence[Mapping[str, Any]]) -> str:
    """The format of the whole file; an entry whose devices are null fits both."""
    kinds = {type(entry.get("DeviceIDs")) for entry in entries}
    if {list, dict} <= kinds:
        raise CheckpointError("its entries have both formats")
    return (LIST if list in kinds else NUMA) if entries else NONE


def _entry(raw: Any, number: int) -> Entry:
    what = f"PodDeviceEntries[{number}]"
    entry = _object(raw, what)
    names = _texts([entry.get(name, "") for name in ("PodUID", "ContainerName", "ResourceName")], what)
    devices = _devices(entry.get("DeviceIDs"), f"{what}.DeviceIDs")
    response = _response(entry.get("AllocResp"), f"{what}.AllocResp")
    return Entry(names[0], names[1], names[2], devices, response)


def _devices(raw: Any, what: str) -> dict[int, tuple[str, ...]]:
    if isinstance(raw, list):
        return {NO_NUMA: tuple(_texts(raw, what))}
    found = {}
    for node, ids in _object({} if raw is None else raw, what).items():
        try:
            found[int(node)] = tuple(_texts(ids, f"{what}[{node}]"))
        except ValueError as problem:
            raise problem if isinstance(problem, CheckpointError) else CheckpointError(f"{what}: {node!r}") from None
    return found


def _response(raw: Any, what: str) -> bytes:
    try:
        return base64.b64decode("" if raw is None else raw, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise CheckpointError(f"{what} is not base64") from None


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CheckpointError(f"{what} is no JSON object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise CheckpointError(f"{what} is no list")
    return value or []


def _texts(value: Any, what: str) -> list[str]:
    found = _list(value, what)
    if not all(isinstance(text, str) for text in found):
        raise CheckpointError(f"{what} holds what is no text")
    return found


def _spew_data(entries: Any, registered: Any, form: str) -> str:
    """The data as spew's `%#v` writes it with sorted keys; null is `<nil>`, an empty list or map is not."""
    show = partial(_spew_entry, form=form)
    return (
        "(checkpoint.checkpointData){"
        f"PodDeviceEntries:([]checkpoint.PodDevicesEntry){_spew_list(entries, show)} "
        f"RegisteredDevices:(map[string][]string){_spew_map(registered, str.encode)}"
        "}"
    )


def _spew_entry(entry: Mapping[str, Any], form: str) -> str:
    devices = entry.get("DeviceIDs")
    if form == LIST:
        shown = f"([]string){_spew_list(devices, str)}"
    else:
        shown = f"(checkpoint.DevicesPerNUMA){_spew_map(devices, int)}"
    names = " ".join(f"{name}:(string){entry.get(name, '')}" for name in ("PodUID", "ContainerName", "ResourceName"))
    response = entry.get("AllocResp")
    content = None if response is None else list(base64.b64decode(response))
    return f"{{{names} DeviceIDs:{shown} AllocResp:([]uint8){_spew_list(content, str)}}}"


def _spew_list(values: Sequence[Any] | None, show: Callable[[Any], str]) -> str:
    return "<nil>" if values is None else f"[{' '.join(map(show, values))}]"


def _spew_map(values: Mapping[str, Any] | None, order: Callable[[str], Any]) -> str:
    if values is None:
        return "<nil>"
    return f"map[{' '.join(f'{key}:{_spew_list(values[key], str)}' for key in sorted(values, key=order))}]"


def fnv1a(content: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in content:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
