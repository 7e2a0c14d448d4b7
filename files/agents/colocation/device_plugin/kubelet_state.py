# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads who holds what from the kubelet: its PodResources socket and its device checkpoint.

The list is never asked for while a container is being given its devices, nor right after: with pods around that ended,
the kubelet then counts anew what is taken and forgets what it is about to write down. The checkpoint is a file and can
always be read; a pod that stands in it, and lives, was given all that it gets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import grpc

from colocation.common.journal import Log
from colocation.common.protobuf import message_classes
from colocation.device_plugin.holders import Held, Ledger, NoCheckpoint, read_checkpoint
from colocation.device_plugin.plugin import reason

LIST = "/v1.PodResourcesLister/List"
TABLE = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "repeated PodResources")},
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "repeated ContainerResources"),
    },
    "ContainerResources": {"name": (1, "string"), "devices": (2, "repeated ContainerDevices")},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "repeated string")},
}
MESSAGES = message_classes("v1", TABLE)
CHECKPOINT = "kubelet_internal_checkpoint"
MOST_BYTES = 64 << 20
LIST_SECONDS = 3.0
QUIET_SECONDS = 1.0  # after a grant that is not written down yet, before the list is asked for
SETTLE_SECONDS = 120.0  # after a kubelet's start: its list may be short, and pods may have no control group yet
log = Log("device_plugin")


def read_list(content: bytes, resources: Collection[str]) -> tuple[Held, ...]:
    """The list's containers that hold something of these resources."""
    found: list[Held] = []
    for pod in MESSAGES["ListPodResourcesResponse"].FromString(content).pod_resources:
        for container in pod.containers:
            ids: dict[str, list[str]] = {}
            for devices in container.devices:
                if devices.resource_name in resources:
                    ids.setdefault(devices.resource_name, []).extend(devices.device_ids)
            for resource, some in ids.items():
                held = Held(resource, container.name, tuple(some), "", pod.namespace, pod.name)
                found.append(held)
    return tuple(found)


def _all_live(_uid: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Places:
    """Where the kubelet keeps what we read."""

    pod_resources: str
    checkpoint: str


class KubeletState:
    """Keeps the ledger up to date; used from one thread."""

    def __init__(self, places: Places, ledger: Ledger) -> None:
        self.places = places
        self._ledger = ledger
        self._channel: grpc.Channel | None = None
        self._file: tuple[int, int, int] | None = None  # of the checkpoint that was read
        self._kept: tuple[Held, ...] | None = None
        self._resources: frozenset[str] = frozenset()
        self._kubelet: object = None
        self._settled_at = 0.0
        self._begun: set[str] = set()  # pods that had a control group, of those that the list had
        self.told = ""  # what could not be read
        self.blind = False  # nothing could

    def refresh(
        self, resources: Collection[str], lives: Callable[[str], bool], kubelet: object, now: float
    ) -> tuple[Held, ...] | None:
        """Who holds what; None where somebody is not known yet. `kubelet` is what tells one kubelet from the next."""
        if frozenset(resources) != self._resources:
            self._resources, self._file = frozenset(resources), None
        if kubelet != self._kubelet:
            self._kubelet, self._settled_at = kubelet, now + SETTLE_SECONDS
        settling = now < self._settled_at
        begun = lives
        lives = _all_live if settling else lives
        problems: list[str] = []
        kept = self._checkpoint(problems)
        named = self._ledger.named()
        self._begun = {uid for uid in named if uid in self._begun or begun(uid)}
        if self._ledger.granted_since(now - QUIET_SECONDS):
            waiting = named - self._begun  # admitted, and without a control group until they begin
            self._ledger.update(None, kept, lambda uid: uid in waiting or lives(uid), now)
            if settling or self._ledger.granted_since(now - QUIET_SECONDS):
                return None
        listed = self._list(problems)
        self.blind = listed is None and kept is None
        self._note("; ".join(problems))
        return self._ledger.update(listed, kept, lives, now)

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _list(self, problems: list[str]) -> tuple[Held, ...] | None:
        try:
            return read_list(self._call(), self._resources)
        except Exception as problem:  # of grpc, or what protobuf raises for a message that is none
            said = reason(problem)
        self.close()
        problems.append(f"the kubelet's PodResources at {self.places.pod_resources} can't be read: {said}")
        return None

    def _call(self) -> bytes:
        if self._channel is None:
            options = (
                ("grpc.max_receive_message_length", MOST_BYTES),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.default_authority", "localhost"),
            )
            self._channel = grpc.insecure_channel(f"unix:{self.places.pod_resources}", options=options)
        call: Any = self._channel.unary_unary(LIST, request_serializer=bytes, response_deserializer=bytes)
        content: bytes = call(b"", timeout=LIST_SECONDS)
        return content

    def _checkpoint(self, problems: list[str]) -> tuple[Held, ...] | None:
        """The checkpoint's entries; it is read when it was replaced."""
        try:
            found = os.stat(self.places.checkpoint)
            file = (found.st_ino, found.st_mtime_ns, found.st_size)
            if file != self._file:
                if found.st_size > MOST_BYTES:
                    raise NoCheckpoint(f"it has {found.st_size} bytes")
                with open(self.places.checkpoint, "rb") as opened:
                    self._kept = read_checkpoint(opened.read(MOST_BYTES), self._resources)
                self._file = file
        except FileNotFoundError:
            self._kept, self._file = (), None  # a node that was given nothing has none
        except (OSError, NoCheckpoint) as problem:
            self._kept, self._file = None, None
            problems.append(f"the kubelet's checkpoint {self.places.checkpoint} can't be read: {problem}")
        return self._kept

    def _note(self, problem: str) -> None:
        """Remember a problem for the status; the log has it once."""
        if problem and problem != self.told:
            source = "before" if self.blind else "one side"
            log.warning(f"who holds what is known from {source}", why=problem)
        self.told = problem
