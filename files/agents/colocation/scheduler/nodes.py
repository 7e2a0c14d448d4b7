# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Nodes as far as they are room: what the API's documents say of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from colocation.scheduler.pods import Amount, Document
from colocation.scheduler.quantity import quantity

KUBELET_PORT = 10250
_ADDRESSES = ("InternalIP", "ExternalIP", "Hostname")  # the first that is there is asked


@dataclass(frozen=True, slots=True)
class Node:
    """A node's size, and where its kubelet is."""

    name: str
    capacity: Amount
    allocatable: Amount
    address: str = ""
    port: int = KUBELET_PORT


def read_node(document: Document) -> Node:
    """A node of the API; a size that is not said is 0, and then nothing fits there."""
    metadata, status = _section(document, "metadata"), _section(document, "status")
    name = metadata.get("name")
    capacity = _size(status, "capacity")
    allocatable = _size(status, "allocatable") if status.get("allocatable") else capacity
    port = _section(_section(status, "daemonEndpoints"), "kubeletEndpoint").get("Port")
    usable = isinstance(port, int) and 0 < port < 1 << 16
    name = sys.intern(name) if isinstance(name, str) else ""
    return Node(name, capacity, allocatable, _address(status), port if usable else KUBELET_PORT)  # type: ignore[arg-type]


def _size(status: Document, what: str) -> Amount:
    amounts = _section(status, what)
    return Amount(*(max(quantity(amounts.get(name)) or 0.0, 0.0) for name in ("cpu", "memory")))


def _address(status: Document) -> str:
    listed = status.get("addresses")
    known: dict[Any, Any] = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("address"), str) and isinstance(entry.get("type"), str):
            known.setdefault(entry["type"], entry["address"])
    return next((str(known[kind]) for kind in _ADDRESSES if kind in known), "")


def _section(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
