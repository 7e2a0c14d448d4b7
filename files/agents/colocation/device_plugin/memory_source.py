# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The source of memory blocks: reads the kernel's figures, has them accounted for, and yields the blocks.

Refreshed when it is due, and between that as soon as a block's worth of memory went away. What can't be read leaves the
offer as it was, and says so. Before the first reading there is no offer at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from colocation.common.journal import Log
from colocation.device_plugin import blocks, memory_readers
from colocation.device_plugin.accounting import Reading, Use, unreclaimable
from colocation.device_plugin.blocks import Names, Share
from colocation.device_plugin.devices import (
    Device,
    Grant,
    NotReady,
    Options,
    Source,
    refuse_unknown,
    too_large,
    variable_name,
)
from colocation.device_plugin.holders import Held
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_metrics import MemoryMetrics
from colocation.device_plugin.memory_readers import Roots, Unreadable
from colocation.device_plugin.memory_snapshot import Holder, MemorySnapshot, Zone
from colocation.device_plugin.zone_account import ZoneAccount, fell

LIMIT_VARIABLE = "COLOCATION_MEMORY_BYTES"
BLOCKS_ANNOTATION = "colocation-memory/blocks"
LIMIT_ANNOTATION = "colocation-memory/bytes"  # what the CRI proxy makes the container's limit of
ALL = -1  # in the place of a NUMA node
WHOLE = 0  # the zone in the blocks' names where all of the memory is one
log = Log("device_plugin")


@dataclass(frozen=True, slots=True)
class _Pod:
    """A holder's pod: its directory, and what it uses by NUMA node and in all."""

    cgroup: str
    used: Mapping[int, int]


class MemorySource(Source):
    """Blocks of the node's memory. `refresh` and `devices` are called from one thread."""

    options = Options(prefers=True)

    def __init__(self, resource: str, settings: Memory, metrics: MemoryMetrics, cgroup_root: str) -> None:
        self.resource = resource
        self._metrics = metrics
        self._settings = settings
        self._zones: dict[int, ZoneAccount] = {}
        self._shares: tuple[Share, ...] = ()
        self._list: tuple[Device, ...] = ()
        self._list_of: tuple[object, ...] = ()
        self._offered: frozenset[str] = frozenset()
        self._refreshed_available = 0
        self._read_at = 0.0
        self.withdrawn: frozenset[str] = frozenset()  # blocks that nobody else may get although they are held
        self.snapshot: MemorySnapshot | None = None
        self.problem = "the memory was not read yet"
        self.configure(settings, cgroup_root)

    def configure(self, settings: Memory, cgroup_root: str) -> None:
        """Take settings; what was seen before is kept as far as it still means the same."""
        old = self._settings
        if (old.unit_mib, old.per_numa_node) != (settings.unit_mib, settings.per_numa_node):
            self._zones = {}
        self._settings = settings
        self._names = Names(settings.block_prefix)
        self._roots = Roots(settings.proc, settings.numa_nodes, cgroup_root)
        self.link = settings.socket

    # What the framework asks.

    def devices(self, held: Set[str]) -> tuple[Device, ...]:
        if not self._shares:
            raise NotReady(self.problem)
        of = (self._shares, held, self.withdrawn, self._names)
        if of != self._list_of:
            count = sum(share.target for share in self._shares)
            if refused := too_large(count, blocks.size(self._names, self._shares), self.larger_unit):
                raise NotReady(refused)
            offered = blocks.offer(self._names, self._shares, held)
            if self.withdrawn:
                offered = tuple(Device(d.id, d.id not in self.withdrawn, d.numa) for d in offered)
            # The kubelet may just be giving away a block of the list before.
            self._offered = frozenset(device.id for part in (self._list, offered) for device in part)
            self._list, self._list_of = offered, of
        return self._list

    def grant(self, ids: Sequence[str]) -> Grant:
        refuse_unknown(self.resource, ids, self._offered)
        size, listed = str(len(ids) * self._settings.unit), ",".join(ids)
        return Grant(
            {variable_name(self.resource): listed, LIMIT_VARIABLE: size},
            {BLOCKS_ANNOTATION: listed, LIMIT_ANNOTATION: size},
        )

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        return blocks.prefer(self._names, available, must, size)

    def larger_unit(self, factor: int) -> str:
        return f"set unit_mib to {self._settings.unit_mib * factor} or more, on all nodes"

    # What the agent does.

    def look(self, now: float) -> bool:
        """Read what is available; whether so much went away that all has to be read."""
        try:
            reading = memory_readers.read_machine(self._roots)
        except Unreadable:
            return False  # the refresh that is due will say so
        if self.snapshot is not None:
            self.snapshot = self.snapshot.at(now, reading.available)
        return fell(self._refreshed_available, reading.available, self._settings.unit)

    def refresh(
        self, holders: Sequence[Held], held: Set[str], pods: Mapping[str, str], kubepods: str, now: float
    ) -> None:
        """Read all, and decide what is offered. `held` may have more blocks than the holders that are known by name."""
        began = time.perf_counter()
        try:
            whole = memory_readers.read_machine(self._roots)
            zones = self._read_zones() if self._settings.per_numa_node else {WHOLE: (whole, None)}
        except Unreadable as problem:
            self._note(f"the memory can't be read, what is offered stays as it was: {problem}")
            return
        self._note("")
        found = {held.uid: self._read_pod(pods[held.uid]) for held in holders if held.uid in pods}
        self._account(zones, holders, found, now)
        self._refreshed_available, self._read_at = whole.available, now
        self.snapshot = self._make_snapshot(whole, holders, held, found, kubepods, now)
        self._metrics.show(self.snapshot)
        self._metrics.read_pressure(self._roots, kubepods)
        self._metrics.refresh.observe(time.perf_counter() - began)

    def _read_zones(self) -> dict[int, tuple[Reading, int | None]]:
        """Each NUMA node, with the hint that the kubelet gets: none to a node that has no processor, for a strict
        policy of its topology manager would then refuse every pod."""
        nodes = memory_readers.read_nodes(self._roots)
        return {node.number: (node.reading, node.number if node.has_cpu else None) for node in nodes}

    def _read_pod(self, cgroup: str) -> _Pod:
        """What a pod uses; nothing if it is gone meanwhile, which is then nobody's or somebody else's."""
        try:
            used = {ALL: unreclaimable(memory_readers.stat(memory_readers.read(f"{cgroup}/memory.stat")))}
            if self._settings.per_numa_node:
                nodes = memory_readers.numa_stat(memory_readers.read(f"{cgroup}/memory.numa_stat"))
                used |= {number: unreclaimable(stat) for number, stat in nodes.items()}
        except Unreadable:
            return _Pod("", {})
        return _Pod(cgroup, used)

    def _account(
        self,
        zones: Mapping[int, tuple[Reading, int | None]],
        holders: Sequence[Held],
        pods: Mapping[str, _Pod],
        now: float,
    ) -> None:
        settings = self._settings
        whole = sum(reading.total for reading, _hint in zones.values())
        rights = self._rights(holders, tuple(zones))
        accounts: dict[int, ZoneAccount] = {}
        for number, (reading, _hint) in zones.items():
            rules = settings.rules(reading.total / max(whole, 1))
            account = accounts[number] = self._zones.get(number) or ZoneAccount(rules)
            account.change(rules)
            key = number if settings.per_numa_node else ALL
            uses = [
                Use(pods[uid].used.get(key, 0), right * settings.unit)
                for (uid, zone), right in rights.items()
                if zone == number and uid in pods
            ]
            self._tell(number, account, account.take(reading, uses, now))
        self._zones = accounts
        shares = tuple(Share(number, accounts[number].target, hint) for number, (_r, hint) in sorted(zones.items()))
        self._shares = self._shares if shares == self._shares else shares

    def _rights(self, holders: Sequence[Held], zones: tuple[int, ...]) -> dict[tuple[str, int], int]:
        """Blocks of each pod in each zone; those that an init container and a later one share count once."""
        rights: dict[tuple[str, int], int] = {}
        for uid, id in {(held.uid, id) for held in holders for id in held.ids}:
            key = (uid, blocks.zone_of(self._names, zones, id))
            rights[key] = rights.get(key, 0) + 1
        return rights

    def _tell(self, number: int, account: ZoneAccount, more: int) -> None:
        if more:
            self._metrics.resized(more)
            now, online, expected = account.target, account.online, account.expected
            log.info("another number of blocks", zone=number, more=more, now=now, online=online, expected=expected)

    def _make_snapshot(
        self,
        whole: Reading,
        holders: Sequence[Held],
        held: Set[str],
        pods: Mapping[str, _Pod],
        kubepods: str,
        now: float,
    ) -> MemorySnapshot:
        taken = blocks.allocated(self._names, self._shares, held)
        zones = tuple(
            Zone(
                number if self._settings.per_numa_node else None,
                account.reading.total,
                account.reading.available,
                account.online,
                account.expected,
                account.rules.margins.reserve,
                account.rules.margins.watermark_bytes(account.reading.total),
                account.target,
                taken.get(number, 0),
                account.fits,
            )
            for number, account in sorted(self._zones.items())
        )
        nobody = _Pod("", {})
        named = tuple(
            Holder(h.namespace, h.pod, h.uid, h.container, h.ids, pod.cgroup, pod.used.get(ALL, 0))
            for h in holders
            for pod in (pods.get(h.uid, nobody),)
        )
        margins = self._settings.rules().margins
        return MemorySnapshot(
            now,
            self._read_at,
            self._settings.unit,
            whole.total,
            whole.available,
            margins.watermark_bytes(whole.total),
            margins.reserve,
            sum(zone.target for zone in zones),
            sum(zone.allocated for zone in zones),
            sum(zone.fits for zone in zones),
            zones,
            named,
            kubepods,
        )

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("memory", why=problem)
        self.problem = problem
