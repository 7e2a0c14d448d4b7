# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the configuration may say about memory on offer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from colocation.common.config import Between, absolute
from colocation.device_plugin.accounting import Choice, Estimate, Margins
from colocation.device_plugin.hysteresis import Damping
from colocation.device_plugin.zone_account import Rules

MIB = 1 << 20


def prefix(text: str) -> str | None:
    """A check: what a block's name may begin with."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,15}", text):
        return None
    return f'"{text}" is not a letter and up to 15 letters and digits, such as "CM"'


def socket_link(text: str) -> str | None:
    """A check: a file name for the link to the socket."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,58}\.sock", text) and text != "kubelet.sock":
        return None
    return f'"{text}" is no name of a socket, such as "colocation-memory.sock"'


@dataclass(frozen=True, slots=True)
class Memory:
    """One resource that is memory of the node."""

    unit_mib: Annotated[int, Between(1, 1 << 20)] = 512  # a block; the same on every node of a cluster
    watermark: Annotated[float, Between(0, 0.9)] = 0.1  # share of the memory that is never offered
    reserve_mib: Annotated[int, Between(0, 1 << 30)] = 0  # the same, as an amount
    debounce_blocks: Annotated[int, Between(1, 10_000)] = 1  # the offer grows by at least so many
    cooldown_seconds: Annotated[float, Between(0, 86_400)] = 60.0  # and not before all of this time allowed it
    slack: Annotated[float, Between(0, 1)] = 0.5  # of a block, which has to be to spare before the offer grows
    estimate: Choice = "peak"  # what online use is expected to be
    window_seconds: Annotated[float, Between(0, 86_400)] = 300.0  # of the peak or percentile
    percentile: Annotated[float, Between(1, 100)] = 95.0
    per_numa_node: bool = False  # offer each NUMA node by itself
    block_prefix: Annotated[str, prefix] = "CM"
    socket: Annotated[str, socket_link] = "colocation-memory.sock"
    proc: Annotated[str, absolute] = "/proc"
    numa_nodes: Annotated[str, absolute] = "/sys/devices/system/node"

    @property
    def unit(self) -> int:
        """Bytes of a block."""
        return self.unit_mib * MIB

    def rules(self, share: float = 1.0) -> Rules:
        """For a zone that has this share of the node's memory."""
        reserve = -int(-self.reserve_mib * MIB * share // 1)
        return Rules(
            self.unit,
            Margins(reserve, self.watermark),
            Estimate(self.estimate, self.window_seconds, self.percentile),
            Damping(self.cooldown_seconds, self.debounce_blocks, self.slack),
        )
