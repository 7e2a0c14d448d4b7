# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What there is to know of a node's swap: what is on now, and what would turn it on at the next boot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwapDevice:
    """A device or file that the kernel swaps to now."""

    name: str
    kind: str  # "file" | "partition" | "zram"
    size_kib: int
    used_kib: int
    priority: int


@dataclass(frozen=True, slots=True)
class SwapSource:
    """Something that would turn swap on at the next boot.

    Kinds: "fstab" (a line), "unit" (a .swap unit file), "generated" (a .swap unit of an unknown generator),
    "stale" (a generated unit whose line in fstab is gone, systemd has not been told), "gpt-auto" (a swap
    partition on the root disk that systemd finds by its type), "zram-generator" (a section of its
    configuration) and "service" (a service that makes swap, such as zramswap.service).
    """

    kind: str
    where: str  # /etc/fstab:3, or the path of the unit or configuration file
    device: str  # as written there; "" when only the service knows
    detail: str


@dataclass(frozen=True, slots=True)
class SwapFacts:
    active: tuple[SwapDevice, ...]
    sources: tuple[SwapSource, ...]
    available_kib: int = 0  # MemAvailable

    @property
    def off(self) -> bool:
        """Off now, and off after a reboot."""
        return not self.active and not self.sources

    def lines(self) -> list[str]:
        """For people: a line for each device and source."""
        now = [f"on now: {device.name} ({device.kind}, priority {device.priority})" for device in self.active]
        boot = [
            f"on at boot: {source.device or source.detail} ({source.kind}, {source.where})" for source in self.sources
        ]
        return now + boot
