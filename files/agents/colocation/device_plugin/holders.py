# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Who holds which device, from what the kubelet says in two places. No socket, no file, no clock.

The PodResources list knows pods by name and is the supported source, but it is empty or short for a while after a
kubelet's start, and for as long as the API is down. The kubelet's checkpoint knows pods by UID, outlives restarts, and
keeps pods that are gone until something makes the kubelet write it. So a device is held as long as

- the list has it, or
- the checkpoint has it and its pod still lives (has a control group), or the kubelet has only just begun, or
- we granted it a moment ago, and neither could have it yet.

A device of which that is said wrongly is offered a little longer. One that is dropped wrongly costs a pod its
admission after the kubelet's next restart.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

Lives = Callable[[str], bool]
GRANT_SECONDS = 60.0  # by then the kubelet has written down what it was granted, or given it up


class NoCheckpoint(ValueError):
    """The text is no checkpoint of the kubelet's device manager; says where it breaks."""


@dataclass(frozen=True, slots=True)
class Held:
    """Devices of one resource that one container holds."""

    resource: str
    container: str
    ids: tuple[str, ...]
    uid: str = ""  # of the pod, where the checkpoint knows it
    namespace: str = ""  # with the name, where the list knows them
    pod: str = ""


def read_checkpoint(content: bytes, resources: Iterable[str]) -> tuple[Held, ...]:
    """What the kubelet wrote down about these resources.

    Its checksum is not verified: a kubelet that finds it wrong starts with nothing and writes it anew, and until then
    a device too many is held.
    """
    try:
        document = json.loads(content)
        entries = document["Data"]["PodDeviceEntries"] or ()
        wanted = frozenset(resources)
        return tuple(_entry(entry) for entry in entries if entry["ResourceName"] in wanted)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise NoCheckpoint(f"this is no device checkpoint: {type(problem).__name__}: {problem}") from None


def _entry(entry: Mapping[str, Any]) -> Held:
    devices = entry["DeviceIDs"] or ()  # by NUMA node, where a device of several nodes stands under each
    ids = {id for part in devices.values() for id in part} if isinstance(devices, dict) else set(devices)
    if not all(isinstance(text, str) for text in (entry["PodUID"], entry["ContainerName"], *ids)):
        raise TypeError("a name is no text")
    return Held(entry["ResourceName"], entry["ContainerName"], tuple(sorted(ids)), entry["PodUID"])


def join(
    listed: Sequence[Held] | None, kept: Sequence[Held] | None, before: Sequence[Held], lives: Lives
) -> tuple[Held, ...]:
    """Who holds what: `listed` by PodResources, `kept` in the checkpoint, each None where it could not be read.

    `before` is the last answer; it stands in for both, and names pods that only the checkpoint has.
    """
    if listed is None and kept is None:
        return tuple(before)
    # Where one can't be read, what it alone said goes on: of the checkpoint, for pods that live.
    listed = listed if listed is not None else [held for held in before if not held.uid]
    known = kept if kept is not None else [held for held in before if held.uid]
    living = sorted(known, key=lambda held: lives(held.uid))  # of two that have a device, the one that lives counts
    by_id = {(held.resource, held.container, id): held for held in living for id in held.ids}
    found: list[Held] = []
    used: set[Held] = set()
    for one in listed:
        match = next(filter(None, (by_id.get((one.resource, one.container, id)) for id in one.ids)), None)
        used |= {match} if match else set()
        uid = match.uid if match else ""
        found.append(Held(one.resource, one.container, one.ids, uid, one.namespace, one.pod))
    names = {held.uid: held for held in before if held.uid and held.pod}
    for one in known:
        if one not in used and lives(one.uid):
            named = names.get(one.uid, one)
            found.append(Held(one.resource, one.container, one.ids, one.uid, named.namespace, named.pod))
    return tuple(found)


_NOTHING: frozenset[str] = frozenset()  # Python makes a new one each time


@dataclass(frozen=True, slots=True)
class _Grant:
    """That the kubelet was told that a container gets a device."""

    when: float
    before: frozenset[str]  # pods that had some of it by then: that these have it still says nothing of the grant

    def is_seen(self, holders: Set[str], listed: bool) -> bool:
        return bool(holders if listed else holders - self.before)


@dataclass(slots=True)
class Ledger:
    """What is held, kept up to date; any thread may grant, one updates."""

    _held: tuple[Held, ...] = ()
    _ids: dict[str, frozenset[str]] = field(default_factory=dict)
    _granted: dict[tuple[str, str], _Grant] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def grant(self, resource: str, ids: Iterable[str], now: float) -> None:
        """The kubelet is told that a container gets these devices."""
        wanted = frozenset(ids)
        with self._lock:
            old = (held for held in self._held if held.resource == resource and not wanted.isdisjoint(held.ids))
            grant = _Grant(now, frozenset(held.uid for held in old))
            self._granted |= {(resource, id): grant for id in wanted}
            self._count()

    def update(
        self, listed: Sequence[Held] | None, kept: Sequence[Held] | None, lives: Lives, now: float
    ) -> tuple[Held, ...]:
        """Take what was read."""
        with self._lock:
            self._held = join(listed, kept, self._held, lives)
            holders = self._holders()
            self._granted = {
                device: grant
                for device, grant in self._granted.items()
                if now - grant.when < GRANT_SECONDS and not grant.is_seen(holders[device], listed is not None)
            }
            self._count()
            return self._held

    def granted_since(self, moment: float) -> bool:
        """Whether something was granted that was not seen since."""
        with self._lock:
            return any(grant.when >= moment for grant in self._granted.values())

    def ids(self, resource: str) -> frozenset[str]:
        """Devices that are held; the same object as long as they are the same."""
        return self._ids.get(resource, _NOTHING)

    def holders(self, resource: str) -> tuple[Held, ...]:
        return tuple(held for held in self._held if held.resource == resource)

    def named(self) -> frozenset[str]:
        """Pods that the list had, by UID."""
        return frozenset(held.uid for held in self._held if held.uid and held.pod)

    def _holders(self) -> dict[tuple[str, str], set[str]]:
        """Pods that have a device which was granted, by UID."""
        found: dict[tuple[str, str], set[str]] = {device: set() for device in self._granted}
        for held in self._held if found else ():
            for id in held.ids:
                if (held.resource, id) in found:
                    found[held.resource, id].add(held.uid)
        return found

    def _count(self) -> None:
        sets: dict[str, set[str]] = {}
        for held in self._held:
            sets.setdefault(held.resource, set()).update(held.ids)
        for resource, id in self._granted:
            sets.setdefault(resource, set()).add(id)
        # One assignment, and old objects where nothing changed: others read without the lock.
        old = self._ids
        self._ids = {
            name: old[name] if name in old and old[name] == ids else frozenset(ids) for name, ids in sets.items()
        }
