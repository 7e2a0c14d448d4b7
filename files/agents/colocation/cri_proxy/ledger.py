# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Who has what: the containers with a place, and the loads that follow from them.

The ledger is not the truth, the runtime is; `truth` compares them. What it promises is arithmetic: the loads are always
those of the entries, no CPU is held alone twice, and an entry that goes leaves nothing behind. Nothing here is a file,
a clock or a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from colocation.cri_proxy.cpus import union
from colocation.cri_proxy.placement import Choice, Layout, Loads, Shape, Want


@dataclass(frozen=True, slots=True)
class Who:
    """A container, by the names that it has before and after it exists."""

    sandbox: str
    pod: str  # UID
    namespace: str
    pod_name: str
    name: str
    attempt: int = 0


def name_of(who: Who) -> str:
    """As humans call a container."""
    return f"{who.namespace}/{who.pod_name}/{who.name}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A container and its place."""

    who: Who
    milli: int
    shape: Shape
    ccxs: tuple[int, ...]
    alone: int = 0  # CPUs that it holds alone
    batch: bool = False
    mems: int = 0  # NUMA nodes to take memory from; 0 for all
    memory: int = 0  # its limit in bytes, where blocks set it
    system: int = 0  # the system's CPUs, where it runs on those; it has no place then, and books nothing


class Ledger:
    """Entries by key: a container's id, or a name of the caller's while it is being made."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.loads = Loads.none(len(layout.ccx_cpus))
        self._entries: dict[str, Entry] = {}
        self._shares: dict[str, tuple[int, ...]] = {}  # what an entry books, by its CCXs
        self._sandboxes: dict[str, set[str]] = {}  # keys of their containers

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def items(self) -> Iterator[tuple[str, Entry]]:
        return iter(self._entries.items())

    def put(self, key: str, entry: Entry) -> None:
        """Book an entry, instead of one that had this key."""
        self.drop(key)
        if entry.alone & self.loads.held:
            raise ValueError(
                f"{entry.who.pod_name}/{entry.who.name} would hold CPUs that another container holds alone"
            )
        self._entries[key] = entry
        self._sandboxes.setdefault(entry.who.sandbox, set()).add(key)
        if entry.alone:
            self.loads.held |= entry.alone
        else:
            self._shares[key] = self._book(entry)

    def drop(self, key: str) -> Entry | None:
        """Take an entry out; None if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        together = self._sandboxes[entry.who.sandbox]
        together.discard(key)
        if not together:
            del self._sandboxes[entry.who.sandbox]
        if entry.alone:
            self.loads.held &= ~entry.alone
            return entry
        for index, share in zip(entry.ccxs, self._shares.pop(key), strict=True):
            self.loads.booked[index] -= share
            self.loads.shared[index] -= 1
            self.loads.batch[index] -= entry.batch
        return entry

    def rename(self, key: str, new: str) -> None:
        """The container has an id now."""
        entry = self.drop(key)
        if entry is not None:
            self.put(new, entry)

    def cpus(self, entry: Entry) -> int:
        """The CPUs that an entry's container runs on, as things stand."""
        return entry.system or entry.alone or self.layout.cpus_of(entry.ccxs) & ~self.loads.held

    def of_sandbox(self, sandbox: str) -> list[tuple[str, Entry]]:
        return [(key, self._entries[key]) for key in sorted(self._sandboxes.get(sandbox, ()))]

    def near(self, sandbox: str, but: str = "") -> int:
        """NUMA nodes where the containers of a sandbox are, but for one."""
        others = (entry for key, entry in self.of_sandbox(sandbox) if key != but)
        return union(self.layout.numa_ids(entry.ccxs) for entry in others)

    def earlier(self, who: Who) -> list[str]:
        """Keys of former tries of the same container; when the next is made they have ended."""
        mates = self.of_sandbox(who.sandbox)
        return [key for key, entry in mates if entry.who.name == who.name and entry.who.attempt < who.attempt]

    def on_ccx(self, index: int) -> list[tuple[str, Entry]]:
        return [(key, entry) for key, entry in self._entries.items() if index in entry.ccxs]

    def _book(self, entry: Entry) -> tuple[int, ...]:
        """Book a shared container, each CCX by its part of the place's CPUs."""
        total = max(1, self.layout.cpus_of(entry.ccxs).bit_count())
        weight = Want(entry.milli).weight * 1000
        shares = tuple(weight * self.layout.ccx_cpus[index].bit_count() // total for index in entry.ccxs)
        for index, share in zip(entry.ccxs, shares, strict=True):
            self.loads.booked[index] += share
            self.loads.shared[index] += 1
            self.loads.batch[index] += entry.batch
        return shares


def placed(entry: Entry, choice: Choice) -> Entry:
    """The entry with another place."""
    return replace(entry, shape=choice.shape, ccxs=choice.ccxs, alone=choice.alone)
