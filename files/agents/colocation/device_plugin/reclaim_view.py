# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the offer and the reclaim tell each other: who holds which blocks, and which blocks may not be offered.

The memory source makes a `Snapshot` in each round and gives it to `Reclaimer.tick`; `Reclaimer.withdrawn` are the
blocks of pods that were told to go: they stay in the list, as unhealthy, so that the node does not offer them to who is
evicted. Values only; nobody is asked here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holding:
    """What one container holds."""

    container: str
    blocks: tuple[str, ...]  # their IDs


@dataclass(frozen=True, slots=True)
class PodHolding:
    """A pod with at least one block."""

    namespace: str
    name: str
    uid: str
    cgroup: str  # the directory of the pod's own cgroup, such as …/kubepods-besteffort-pod….slice; "" if not found
    holdings: tuple[Holding, ...]

    @property
    def blocks(self) -> tuple[str, ...]:
        """Each once: an init container's are used again by those that follow it."""
        return tuple(dict.fromkeys(block for holding in self.holdings for block in holding.blocks))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The node's colocation memory at one moment."""

    resource: str
    block_bytes: int
    target: int  # blocks that the node can give
    fits: int  # blocks that it has memory for beside what is used online now; it gives fewer, for that may grow again
    allocated: int  # blocks that pods hold; more than fit when online use grew
    pods: tuple[PodHolding, ...]

    def held(self, alive: Collection[str]) -> int:
        """How many of the blocks are held by then: pods of which only these are alive give theirs back."""
        kept = {block for pod in self.pods if pod.uid in alive for block in pod.blocks}
        left = {block for pod in self.pods if pod.uid not in alive for block in pod.blocks} - kept
        return self.allocated - len(left)
