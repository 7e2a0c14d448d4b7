# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The unit of GPU memory that suits all nodes of a cluster. Agents refuse a smaller one by the same rule
(`gpus.py` of the device plugin), which a test holds against this one: the two never run on the same machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_MESSAGE = 4 << 20  # bytes of a list that the kubelet takes
FRAME, HINT, CODE = 13, 6, 9  # of these, for each device beside its number
MOST_UNITS = 4096  # of one request, which a pod's status names one by one
LARGEST = 1 << 20


def fits(memories_mib: Sequence[int], unit_mib: int, several: bool) -> bool:
    """Whether a node with these GPUs can offer them in this unit."""
    counts = [memory // unit_mib for memory in memories_mib]
    size = sum(count * (FRAME + HINT + CODE + len(str(max(count - 1, 0)))) for count in counts)
    largest = sum(counts) if several else max(counts, default=0)
    return size <= MOST_MESSAGE and largest <= MOST_UNITS


def gpu_unit(nodes: Iterable[Sequence[int]], several: bool) -> int:
    """The smallest power of two in MiB that suits every node."""
    lists = list(nodes)
    unit = 1
    while unit < LARGEST and not all(fits(memories, unit, several) for memories in lists):
        unit *= 2
    return unit
