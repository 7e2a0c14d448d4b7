# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Containers in and out of the ledger, by a configuration. Pure; `policy` adds the lock and the relay's events.

What was *said* of a container is kept with its entry, so that it can be judged again: when it is resized, when the
configuration or the machine changes, when places are balanced. A container that is found running is judged the same way
and stays where it is if that is a place that it could be given today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from colocation.cri_proxy import rebalance, wishes
from colocation.cri_proxy.config import Config, reserved_cpus, system_cpus
from colocation.cri_proxy.ledger import Entry, Ledger, Who, name_of, placed
from colocation.cri_proxy.placement import Choice, Layout, Shape, Want, choose, memory_nodes, stay, stay_alone
from colocation.cri_proxy.topology import Machine
from colocation.cri_proxy.wishes import Said, Wish

_NO_PLACE = Choice(Shape.MACHINE, (), 0)  # of a container that runs on the system's CPUs


@dataclass(frozen=True, slots=True)
class Freed:
    """A container that gets all CPUs back, and the memory of all nodes where we chose these."""

    name: str
    mems: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A container that exists and is not booked."""

    who: Who
    said: Said
    cpus: int  # its cpuset as it is
    hint: Choice | None = None  # its place by an old record
    mems: bool = False  # we chose its memory nodes

    @property
    def freed(self) -> Freed:
        return Freed(name_of(self.who), self.mems)


class Books:
    """The ledger of one machine under one configuration."""

    def __init__(self, config: Config, machine: Machine) -> None:
        self.config = config
        self.machine = machine
        self.system = system_cpus(config, machine)  # where containers of reserved namespaces run
        self.ledger = Ledger(Layout.of(machine, reserved_cpus(config, machine)))
        self._said: dict[str, Said] = {}

    def judge(self, said: Said) -> Wish:
        return wishes.read(said, self.config)

    def is_on_system(self, wish: Wish) -> bool:
        """Whether the container runs on the system's CPUs."""
        return wish.pinned and wish.on_reserved and bool(self.system)

    def book(self, key: str, who: Who, said: Said, wish: Wish) -> Entry | None:
        """Give a container a place; None where there is no CPU to give."""
        if self.is_on_system(wish):
            return self._put(key, who, said, wish, _NO_PLACE)
        choice = self._choose(self._near(key, who, wish.want))
        return self._put(key, who, said, wish, choice) if choice is not None else None

    def release(self, key: str) -> Entry | None:
        """A container has ended; its entry, if it had one."""
        self._said.pop(key, None)
        return self.ledger.drop(key)

    def rename(self, key: str, new: str) -> None:
        """A container that was being made has its id."""
        if key in self.ledger:
            self.ledger.rename(key, new)
            self._said[new] = self._said.pop(key)

    def said(self, key: str) -> Said:
        return self._said[key]

    def resize(self, key: str, said: Said) -> Entry:
        """Judge a booked container by other resources: it stays where that still fits. Its entry before."""
        before = self.ledger.get(key)
        if before is None:
            raise KeyError(key)
        self._said[key] = said
        if before.system:
            return before
        want = self._near(key, before.who, self.judge(said).want)
        cpus = self.ledger.cpus(before)
        self.ledger.drop(key)
        choice = self._stay(want, cpus, before.ccxs) or self._choose(want)
        after = before if choice is None else placed(replace(before, milli=want.milli), choice)
        self.ledger.put(key, replace(after, mems=self._mems(said, after.ccxs)))
        return before

    def put_back(self, key: str, before: Entry, said: Said) -> None:
        """A resize came to nothing. CPUs that were given away since are not held alone again."""
        if key in self.ledger:
            self.ledger.drop(key)
            taken = before.alone & self.ledger.loads.held
            self.ledger.put(key, replace(before, alone=0) if taken else before)
            self._said[key] = said

    def adopt(self, found: Mapping[str, Found]) -> list[str]:
        """Book containers that run; the keys of those that are ours. Those that stay go first, then the largest."""
        judged = [(key, one, self.judge(one.said)) for key, one in found.items() if key not in self.ledger]
        ours = sorted(
            ((key, one, wish) for key, one, wish in judged if wish.pinned),
            key=lambda item: (not item[2].want.alone, -item[2].want.milli, item[0]),
        )
        moving = []
        for key, one, wish in ours:
            choice = self._stay(wish.want, one.cpus, self._touched(one.cpus)) or self._hinted(one)
            if choice is None or self.is_on_system(wish):
                moving.append((key, one, wish))
            else:
                self._put(key, one.who, one.said, wish, choice)
        for key, one, wish in moving:
            self.book(key, one.who, one.said, wish)
        return [key for key, _one, _wish in ours]

    def as_found(self) -> dict[str, Found]:
        """All entries as if they had been found, for the books of another configuration."""
        cpus = self.ledger.cpus
        return {
            key: Found(entry.who, self._said[key], cpus(entry), mems=bool(entry.mems))
            for key, entry in self.ledger.items()
        }

    def rebalance(self) -> list[str]:
        """Move a few containers to emptier places; their keys."""
        rules = self.config.placement
        done = rebalance.moves(self.ledger, self._want_again, rules.separate_batch, rules.rebalance_moves)
        for key, entry in done:
            self.ledger.put(key, replace(entry, mems=self._mems(self._said[key], entry.ccxs)))
        return [key for key, _entry in done]

    def _put(self, key: str, who: Who, said: Said, wish: Wish, choice: Choice) -> Entry:
        want, memory = wish.want, self.memory(said, wish)
        entry = Entry(who, want.milli, choice.shape, choice.ccxs, choice.alone, want.batch, memory=memory)
        if choice is _NO_PLACE:
            entry = replace(entry, system=self.system)
        else:
            entry = replace(entry, mems=self._mems(said, choice.ccxs))
        self.ledger.put(key, entry)
        self._said[key] = said
        return entry

    def memory(self, said: Said, wish: Wish) -> int:
        """The memory limit that blocks set; 0 where there are none or the kubelet has its own word."""
        return wish.blocks if self.config.blocks.limit_memory and said.resources.memory_limit <= 0 else 0

    def _near(self, key: str, who: Who, want: Want) -> Want:
        near = self.ledger.near(who.sandbox, key)
        return replace(want, near=near) if near else want

    def _want_again(self, key: str, entry: Entry) -> Want:
        return self._near(key, entry.who, self.judge(self._said[key]).want)

    def _choose(self, want: Want) -> Choice | None:
        return choose(self.ledger.layout, self.ledger.loads, want, self.config.placement.separate_batch)

    def _stay(self, want: Want, cpus: int, ccxs: tuple[int, ...]) -> Choice | None:
        """The choice that leaves a container where it is, if it may stay there."""
        layout, loads = self.ledger.layout, self.ledger.loads
        if want.alone:
            return stay_alone(layout, loads, want, cpus)
        return None if cpus & ~layout.cpus_of(ccxs) else stay(layout, loads, want, ccxs)

    def _hinted(self, found: Found) -> Choice | None:
        """The choice of an old record, where the container's CPUs bear it out."""
        hint = found.hint
        if hint is None or hint.alone or set(hint.ccxs) != set(self._touched(found.cpus)):
            return None
        whole = self.ledger.layout.cpus_of(hint.ccxs)
        return hint if whole & ~self.ledger.loads.held and not found.cpus & ~whole else None

    def _touched(self, cpus: int) -> tuple[int, ...]:
        return tuple(index for index, own in enumerate(self.ledger.layout.ccx_cpus) if own & cpus)

    def _mems(self, said: Said, ccxs: tuple[int, ...]) -> int:
        if not self.config.policy.topology_aware.PinMemory:
            return 0
        held, _numas = wishes.blocks(said, self.config.blocks)
        limit = max(0, said.resources.memory_limit, held)
        return memory_nodes(self.machine, self.ledger.layout.numa_ids(ccxs), limit)
