# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Blocks that are not offered although they are, or get, free: those of pods that were told to go.

An evicted pod comes back in a moment; if its old blocks were still on offer, to the same node. So they are withdrawn
before it is evicted, and for a while after it has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from colocation.device_plugin.reclaim_view import PodHolding, Snapshot


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The blocks of one pod."""

    blocks: frozenset[str]
    gone: float | None = None  # since when it holds them no more


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """All of them, by the pod's UID."""

    pods: Mapping[str, Withdrawal] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def blocks(self) -> frozenset[str]:
        return frozenset().union(*(withdrawal.blocks for withdrawal in self.pods.values()))

    def told(self, pod: PodHolding) -> Withdrawn:
        """A pod is told to go."""
        return Withdrawn({**self.pods, pod.uid: Withdrawal(frozenset(pod.blocks))})

    def stays(self, uid: str) -> Withdrawn:
        """It was told, and will not go."""
        return Withdrawn({other: kept for other, kept in self.pods.items() if other != uid})

    def seen(self, snapshot: Snapshot, now: float, rest: float) -> Withdrawn:
        """Who has gone `rest` seconds ago is forgotten, and so are blocks that somebody else got."""
        holders = {pod.uid for pod in snapshot.pods}
        others = {block: pod.uid for pod in snapshot.pods for block in pod.blocks}
        kept = {}
        for uid, withdrawal in self.pods.items():
            blocks = frozenset(block for block in withdrawal.blocks if others.get(block, uid) == uid)
            gone = None if uid in holders else now if withdrawal.gone is None else withdrawal.gone
            if blocks and (gone is None or now - gone < rest):
                kept[uid] = replace(withdrawal, blocks=blocks, gone=gone)
        return Withdrawn(kept)

    def left(self, snapshot: Snapshot) -> int:
        """How many blocks the node offers then."""
        return max(0, max(snapshot.target, snapshot.allocated) - len(self.blocks))
