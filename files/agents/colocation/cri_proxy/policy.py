# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Decides on the requests that the relay holds, and keeps the books by how they ended.

The relay's thread asks and tells; the agent's thread brings what the runtime says of what runs. A lock is held for the
microseconds of a decision, never over a call. Nothing here reads a file or a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from colocation.common.journal import Log
from colocation.cri_proxy import calls
from colocation.cri_proxy import cpus as cpu_sets
from colocation.cri_proxy.bookkeeping import Books, Found, Freed
from colocation.cri_proxy.config import Config
from colocation.cri_proxy.ledger import Entry, Who, name_of
from colocation.cri_proxy.topology import Machine
from colocation.cri_proxy.wishes import Said, Wish

PENDING = "creation "  # before the key of an entry whose container has no id yet
log = Log("policy")


@dataclass(frozen=True, slots=True)
class Target:
    """What a container's cpuset ought to be."""

    key: str
    cpus: int
    mems: int = 0  # 0 leaves them as they are
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Resized:
    """What a container had before the resize that is under way."""

    before: Entry
    said: Said


@dataclass(slots=True)
class Counts:
    """What happened since the start."""

    placed: int = 0
    exempt: int = 0
    nowhere: int = 0  # no CPU was left to give
    mistaken: int = 0  # annotations that say nothing
    pinned_by_kubelet: int = 0  # as its CPU Manager does under the policy static
    resized: int = 0
    failed: int = 0  # creations that the runtime refused


class PlacementPolicy:
    """The relay's `Policy`. Without books, calls are only passed on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._books: Books | None = None
        self._resizes: dict[int, _Resized] = {}
        self._unheard: set[str] = set()  # bookings whose requests ended without an answer
        self._freed: dict[str, Freed] = {}
        self._online = 0
        self._nodes = 0  # NUMA nodes that have memory
        self.counts = Counts()
        self.stale = threading.Event()  # cpusets of other containers changed with a place

    # What the relay asks and tells

    def create(self, creation: calls.Creation) -> calls.Edit:
        """Where a container goes."""
        pod = creation.pod
        who = Who(creation.sandbox_id, pod.uid, pod.namespace, pod.name, creation.container, creation.attempt)
        said = Said(pod, creation.container, creation.resources, creation.annotations, creation.environment)
        with self._lock:
            books = self._books
            if books is None:
                return calls.Edit()
            wish = books.judge(said)
            self._complain(who, wish)
            for key in books.ledger.earlier(who):
                self._release(books, key)
            memory = books.memory(said, wish) or None
            if creation.resources.cpuset_cpus:
                self.counts.pinned_by_kubelet += 1
                return calls.Edit(memory_limit=memory)
            if not wish.pinned:
                self.counts.exempt += 1
                return calls.Edit(memory_limit=memory)
            entry = books.book(f"{PENDING}{creation.key}", who, said, wish)
            if entry is None:
                self.counts.nowhere += 1
                return calls.Edit(memory_limit=memory)
            self.counts.placed += 1
            return self._edit(books, entry, memory)

    def resize(self, resize: calls.Resize) -> calls.Edit:
        """Where a container goes that gets other resources."""
        with self._lock:
            books = self._books
            if books is None or resize.container_id not in books.ledger or resize.resources.cpuset_cpus:
                return calls.Edit()
            was = books.said(resize.container_id)
            before = books.resize(resize.container_id, replace(was, resources=_merged(was.resources, resize.resources)))
            self._resizes[resize.key] = _Resized(before, was)
            after = books.ledger.get(resize.container_id) or before
            self._shaken(before, after)
            self.counts.resized += 1
            memory = after.memory if after.memory and resize.resources.memory_limit <= 0 else None
            return self._edit(books, after, memory)

    def observe(self, event: calls.Event) -> None:
        """Something happened."""
        with self._lock:
            if self._books is not None:
                self._observe(self._books, event)

    def _observe(self, books: Books, event: calls.Event) -> None:
        if isinstance(event, calls.ContainerCreated):
            books.rename(f"{PENDING}{event.key}", event.container_id)
        elif isinstance(event, calls.CreationFailed):
            self._creation_failed(books, event)
        elif isinstance(event, calls.ContainerResized):
            self._resizes.pop(event.key, None)
        elif isinstance(event, calls.ResizeFailed):
            resized = self._resizes.pop(event.key, None)
            if resized is not None and event.certain:
                books.put_back(event.container_id, resized.before, resized.said)
                self.stale.set()
        elif isinstance(event, calls.ContainerStopped | calls.ContainerRemoved):
            self._release(books, event.container_id)
        elif isinstance(event, calls.SandboxStopped | calls.SandboxRemoved):
            for key, _entry in books.ledger.of_sandbox(event.sandbox_id):
                self._release(books, key)

    def _creation_failed(self, books: Books, event: calls.CreationFailed) -> None:
        self.counts.failed += 1
        key = f"{PENDING}{event.key}"
        if event.certain:
            self._release(books, key)
        elif key in books.ledger:
            self._unheard.add(key)

    # What the agent brings and asks

    def configure(self, config: Config, machine: Machine | None) -> None:
        """Another configuration or machine: containers stay where they may, others get a new place or all CPUs."""
        books = Books(config, machine) if machine is not None and config.places else None
        with self._lock:
            found = self._books.as_found() if self._books is not None else {}
            if machine is not None:
                self._online, self._nodes = machine.online, cpu_sets.of(machine.memory_kib)
            self._books = books
            kept = set(books.adopt(found)) if books is not None else set()
            for key, one in found.items():
                if key not in kept and not key.startswith(PENDING):
                    self._freed[key] = one.freed
            for key in kept:
                self._freed.pop(key, None)
            self.stale.set()

    def entries(self) -> tuple[tuple[str, Entry, int], ...]:
        """All bookings, with the CPUs as things stand."""
        with self._lock:
            ledger = self._books.ledger if self._books is not None else None
            return (
                tuple((key, entry, ledger.cpus(entry)) for key, entry in ledger.items()) if ledger is not None else ()
            )

    def records(self) -> tuple[tuple[str, Entry, Said], ...]:
        """All bookings of containers that exist, with what was said of them."""
        with self._lock:
            books = self._books
            if books is None:
                return ()
            return tuple((k, e, books.said(k)) for k, e in books.ledger.items() if not k.startswith(PENDING))

    def targets(self) -> tuple[Target, ...]:
        """What the cpusets of containers ought to be."""
        with self._lock:
            online, nodes = self._online, self._nodes
            freed = tuple(
                Target(key, online, nodes if one.mems else 0, one.name) for key, one in self._freed.items() if online
            )
            if self._books is None:
                return freed
            ledger = self._books.ledger
            booked = ((key, entry) for key, entry in ledger.items() if not key.startswith(PENDING))
            return (*(Target(key, ledger.cpus(entry), entry.mems, name_of(entry.who)) for key, entry in booked), *freed)

    def to_free(self) -> dict[str, Freed]:
        """Containers that are to get all CPUs back."""
        with self._lock:
            return dict(self._freed)

    def free(self, containers: Mapping[str, Freed]) -> None:
        """Give these containers all CPUs back, where they are not ours to place."""
        with self._lock:
            self._freed.update(containers)

    def freed(self, keys: Iterable[str]) -> None:
        """These have them, or are no more."""
        with self._lock:
            for key in keys:
                self._freed.pop(key, None)

    def unheard(self) -> frozenset[str]:
        """Bookings whose requests ended without an answer: a list that begins later tells what came of them."""
        with self._lock:
            return frozenset(self._unheard)

    def forget(self, keys: Iterable[str]) -> int:
        """The runtime does not have these; how many were booked."""
        with self._lock:
            books = self._books
            gone = [key for key in keys if books is not None and self._release(books, key)]
            return len(gone)

    def adopt(self, found: Mapping[str, Found]) -> list[str]:
        """Book containers that run without being booked; those that are ours to place. One being made is let be.

        One that had a place by an old record, and is not to have one any more, gets all CPUs back.
        """
        with self._lock:
            books = self._books
            if books is None:
                return []
            making = {entry.who for key, entry in books.ledger.items() if key.startswith(PENDING)}
            known = {key: one for key, one in found.items() if one.who not in making}
            ours = books.adopt(known)
            exempt = {key: one.freed for key, one in known.items() if one.hint is not None and key not in ours}
            self._freed = {key: one for key, one in {**self._freed, **exempt}.items() if key not in ours}
            if ours or exempt:
                self.stale.set()
            return ours

    def rebalance(self) -> list[str]:
        """Move a few containers to emptier places; their keys."""
        with self._lock:
            moved = self._books.rebalance() if self._books is not None else []
            if moved:
                self.stale.set()
            return moved

    def _release(self, books: Books, key: str) -> bool:
        self._unheard.discard(key)
        entry = books.release(key)
        if entry is not None and entry.alone:
            self.stale.set()  # others may use them again
        return entry is not None

    def _shaken(self, before: Entry, after: Entry) -> None:
        if before.alone != after.alone:
            self.stale.set()

    def _edit(self, books: Books, entry: Entry, memory: int | None) -> calls.Edit:
        if entry.alone:
            self.stale.set()  # those who ran there must leave
        mems = cpu_sets.show(entry.mems) if entry.mems else None
        return calls.Edit(cpu_sets.show(books.ledger.cpus(entry)), mems, memory)

    def _complain(self, who: Who, wish: Wish) -> None:
        for mistake in wish.mistakes:
            self.counts.mistaken += 1
            log.warning("an annotation says nothing", container=name_of(who), mistake=mistake)


def _merged(before: calls.Resources, new: calls.Resources) -> calls.Resources:
    """What a container has after a resize; fields that are not given stay."""
    return calls.Resources(
        new.cpu_period or before.cpu_period,
        new.cpu_quota or before.cpu_quota,
        new.cpu_shares or before.cpu_shares,
        new.memory_limit or before.memory_limit,
        before.cpuset_cpus,
        before.cpuset_mems,
        before.oom_score_adj,
    )
