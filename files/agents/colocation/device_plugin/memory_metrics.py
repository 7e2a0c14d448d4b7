# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What Prometheus and the status page are told of memory on offer."""

from __future__ import annotations

from colocation.common.metrics import Registry
from colocation.common.status import Table
from colocation.device_plugin import memory_readers
from colocation.device_plugin.memory_readers import Roots
from colocation.device_plugin.memory_snapshot import MemorySnapshot, Zone

REFRESH_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
ZONE_COLUMNS = ("zone", "total", "available", "online", "expected", "kept back", "target", "fits", "held", "offered")
HOLDER_COLUMNS = ("pod", "container", "blocks", "right", "used by the pod", "control group")
GIB = 1 << 30


class MemoryMetrics:
    """Set after each refresh. The zone of a metric is `all`, or the number of a NUMA node."""

    def __init__(self, registry: Registry) -> None:
        zone = ("zone",)
        self._total = registry.gauge("colocation_memory_total_bytes", "Memory of the zone.", zone)
        self._available = registry.gauge("colocation_memory_available_bytes", "What the kernel has available.", zone)
        self._online = registry.gauge("colocation_memory_online_bytes", "What all but the blocks use.", zone)
        self._expected = registry.gauge("colocation_memory_expected_bytes", "Online use that is reckoned with.", zone)
        self._target = registry.gauge("colocation_memory_target_blocks", "Blocks that may be offered.", zone)
        self._fits = registry.gauge("colocation_memory_fitting_blocks", "Blocks that there is memory for now.", zone)
        self._held = registry.gauge("colocation_memory_held_blocks", "Blocks that containers hold.", zone)
        self._unit = registry.gauge("colocation_memory_block_bytes", "Size of a block.")
        self._resizes = registry.counter("colocation_memory_resizes_total", "Changes of the target.", ("direction",))
        self._moved = registry.counter("colocation_memory_resized_blocks_total", "Blocks of these.", ("direction",))
        self._pressure = registry.gauge(
            "colocation_memory_pressure_percent", "Time lost to waiting, over 10 s.", ("scope", "kind")
        )
        about = "Time that one refresh took."
        self.refresh = registry.histogram("colocation_memory_refresh_seconds", about, REFRESH_BOUNDS)
        self._zones: set[str] = set()
        for direction in ("up", "down"):
            self._resizes.add(0, direction=direction)

    def resized(self, blocks: int) -> None:
        """The target changed by so many blocks."""
        direction = "up" if blocks > 0 else "down"
        self._resizes.add(direction=direction)
        self._moved.add(abs(blocks), direction=direction)

    def read_pressure(self, roots: Roots, kubepods: str) -> None:
        """Take the kernel's pressure figures, where it has any."""
        for scope, path in (("node", f"{roots.proc}/pressure/memory"), ("pods", f"{kubepods}/memory.pressure")):
            found = memory_readers.read_pressure(path) if path[0] == "/" else None
            if found is not None:
                self._pressure.set(found.some, scope=scope, kind="some")
                self._pressure.set(found.full, scope=scope, kind="full")

    def show(self, snapshot: MemorySnapshot) -> None:
        self._unit.set(snapshot.unit)
        now = {_label(zone): zone for zone in snapshot.zones}
        for label, zone in now.items():
            self._total.set(zone.total, zone=label)
            self._available.set(zone.available, zone=label)
            self._online.set(zone.online, zone=label)
            self._expected.set(zone.expected, zone=label)
            self._target.set(zone.target, zone=label)
            self._fits.set(zone.fits, zone=label)
            self._held.set(zone.allocated, zone=label)
        used = (self._total, self._available, self._online, self._expected)
        for gone in self._zones.difference(now):
            for gauge in (*used, self._target, self._fits, self._held):
                gauge.forget(zone=gone)
        self._zones = set(now)


def tables(snapshot: MemorySnapshot) -> tuple[Table, ...]:
    """The zones and the holders, for people."""
    zones = tuple(
        (
            _label(zone),
            _gib(zone.total),
            _gib(zone.available),
            _gib(zone.online),
            _gib(zone.expected),
            _gib(zone.reserve + zone.watermark),
            zone.target,
            zone.fits,
            zone.allocated,
            max(zone.target, zone.allocated),
        )
        for zone in snapshot.zones
    )
    holders = tuple(
        (h.name, h.container, len(h.blocks), _gib(len(h.blocks) * snapshot.unit), _gib(h.used), h.cgroup or None)
        for h in sorted(snapshot.holders, key=lambda holder: (holder.name, holder.container))
    )
    block = f"blocks of {snapshot.unit >> 20} MiB"
    return (Table(f"Memory, {block}", ZONE_COLUMNS, zones), Table("Holders of memory", HOLDER_COLUMNS, holders))


def _label(zone: Zone) -> str:
    return "all" if zone.numa is None else str(zone.numa)


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"
