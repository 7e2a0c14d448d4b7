# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pods that want units of GPUs, as the API tells of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ASSUME_TIME = "DOSLAB_IO_GPU_ASSUME_TIME"
ASSIGNED = "DOSLAB_IO_GPU_ASSIGNED"
UUID = "DOSLAB_IO_GPU_UUID"
LAST = 1 << 63  # in the place of a time that nobody wrote
_ENDED = ("Succeeded", "Failed")
# A whole quantity. As many digits as the API's numbers have; Python refuses to read thousands of them.
_QUANTITY = re.compile(r"([0-9]{1,19})(?:[eE]([0-9]{1,2})|(|k|M|G|Ki|Mi|Gi))")
_FACTORS = {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(frozen=True, slots=True)
class Want:
    """One container's request."""

    container: str
    units: int
    passing: bool = False  # an init container that ends before the others begin, which then get its units


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node that has not ended."""

    uid: str
    namespace: str
    name: str
    wants: tuple[Want, ...]  # in the order in which the kubelet serves them
    wish: str = ""  # the GPU that is annotated
    assigned: str = ""
    assumed: int = LAST
    created: str = ""
    pending: bool = True
    ending: bool = False
    version: int = 0  # of the object: a later one is larger

    @property
    def total(self) -> int:
        """Units of the pod as the scheduler counts them."""
        return total(self.wants)

    @property
    def shape(self) -> tuple[tuple[int, bool], ...]:
        """What tells apart pods that may not be taken for each other."""
        return tuple((want.units, want.passing) for want in self.wants)

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


def total(wants: Iterable[Want]) -> int:
    """Units that these containers of one pod want together: init containers come one after the other."""
    most = lasting = 0
    for want in wants:
        most = max(most, lasting + want.units)
        lasting += 0 if want.passing else want.units
    return most


def read_pod(document: Mapping[str, Any], resource: str) -> Pod | None:
    """The pod in an API object; None if it wants none of the resource, or has ended."""
    metadata, spec, status = (document.get(part) or {} for part in ("metadata", "spec", "status"))
    wants = (*_wants(spec.get("initContainers"), resource, True), *_wants(spec.get("containers"), resource, False))
    if not wants or status.get("phase") in _ENDED:
        return None
    notes = metadata.get("annotations") or {}
    return Pod(
        str(metadata.get("uid", "")),
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        wants,
        str(notes.get(UUID, "")),
        str(notes.get(ASSIGNED, "")),
        _number(notes.get(ASSUME_TIME)),
        str(metadata.get("creationTimestamp", "")),
        status.get("phase") in (None, "", "Pending"),
        bool(metadata.get("deletionTimestamp")),
        _version(metadata.get("resourceVersion")),
    )


def _wants(containers: Any, resource: str, init: bool) -> tuple[Want, ...]:
    found = []
    for container in containers or ():
        units = _units((container.get("resources") or {}).get("limits") or {}, resource)
        if units:
            passing = init and container.get("restartPolicy") != "Always"
            found.append(Want(str(container.get("name", "")), units, passing))
    return tuple(found)


def _units(limits: Mapping[str, Any], resource: str) -> int:
    """Extended resources are whole numbers, but `2k` and `2e3` are one as well."""
    found = _QUANTITY.fullmatch(str(limits.get(resource, "0")))
    if found is None:
        return 0
    number, power, suffix = found.groups()
    return int(number) * (10 ** int(power) if power else _FACTORS[suffix])


def _version(text: Any) -> int:
    """API servers with etcd count; where one does not, all are alike."""
    plain = str(text or "")
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) <= len(str(LAST)) else 0


def _number(text: Any) -> int:
    """A time as an upper scheduler writes it; what is no number comes last."""
    plain = str(text or "").strip()
    good = plain.isascii() and plain.isdecimal() and len(plain) <= len(str(LAST))
    return min(int(plain), LAST) if good else LAST
