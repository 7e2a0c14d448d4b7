# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which units of which GPU a container should get. Pure.

One request stays on one GPU: the one that is wished for if it has room, else the one with the least room that suffices,
so that large rooms stay for large requests. What others who wait have booked is taken last of all. For what may be an
init container that is room for its whole pod, whatever is wished; pods that fit nowhere do not count there, for they
can't be helped. Units that the container must have (those of its pod's init container) name the GPU. Several GPUs only
where that is allowed and one does not do: then as few as can be, of as few NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from colocation.device_plugin.devices import Refused
from colocation.device_plugin.gpus import Catalog, Gpu, name


@dataclass(frozen=True, slots=True)
class Request:
    """What one container asks for."""

    size: int
    must: tuple[str, ...] = ()  # devices that it gets in any case
    wishes: tuple[str, ...] = ()  # UUIDs of GPUs that an upper scheduler chose, the first one first
    peaks: tuple[int, ...] = ()  # units that its pod wants of the same GPU from here on, for each pod that it may be of
    # units of GPUs, by UUID, that the plan has for all who wait
    booked: Mapping[str, int] = field(default_factory=dict)
    several: bool = False  # it may have units of more than one GPU


def choose(catalog: Catalog, available: Sequence[str], request: Request) -> list[str]:
    """The devices for the container, or Refused."""
    chosen = list(request.must)
    free = free_numbers(catalog, available, set(chosen))
    bound = catalog.of(chosen)
    rooms = {gpu: len(free.get(gpu.code, ())) for gpu in catalog.gpus if gpu in bound or not gpu.ill}
    missing = request.size - len(chosen)
    for gpu in _order(rooms, bound, missing, request):
        if missing <= 0:
            break
        taken = sorted(free.get(gpu.code, ()))[:missing]
        chosen += [name(gpu.code, number) for number in taken]
        missing -= len(taken)
    if missing > 0:
        raise Refused(refusal(catalog, rooms, request))
    return chosen


def free_numbers(catalog: Catalog, available: Iterable[str], without: set[str]) -> dict[str, list[int]]:
    """Free units by the code of their GPU, without those that are no more."""
    counts = {gpu.code: catalog.units(gpu) for gpu in catalog.gpus}
    free: dict[str, list[int]] = {}
    for id in available:
        if id not in without:
            code, _dash, number = id.rpartition("-")
            if number.isdecimal() and int(number) < counts.get(code, 0):
                free.setdefault(code, []).append(int(number))
    return free


def _order(rooms: Mapping[Gpu, int], bound: Sequence[Gpu], missing: int, request: Request) -> list[Gpu]:
    """GPUs from which to take units, one after the other."""
    if bound and not request.several:
        return list(bound) if len(bound) == 1 and rooms[bound[0]] >= missing else []
    enough = [gpu for gpu, room in rooms.items() if room >= missing and (not bound or gpu in bound)]
    if enough:
        most = max(rooms[gpu] for gpu in enough)
        peak = max((one for one in request.peaks if one <= most), default=0)
        return [min(enough, key=lambda gpu: _fit(gpu, rooms[gpu], peak, missing, request))]
    return _spread(rooms, bound, missing) if request.several else []


def _fit(gpu: Gpu, room: int, peak: int, missing: int, request: Request) -> tuple[bool, bool, int, int, str]:
    """Where the whole pod has room, and nobody loses his: wishes first, then the tightest."""
    wished = gpu.uuid in request.wishes
    rank = request.wishes.index(gpu.uuid) if wished else len(request.wishes)
    kept = request.booked.get(gpu.uuid, 0) + (0 if wished else missing)  # who wished is among those who are booked
    return room < peak, room < kept, rank, room, gpu.code


def _spread(rooms: Mapping[Gpu, int], bound: Sequence[Gpu], missing: int) -> list[Gpu]:
    """Several GPUs: those that are given, then of the NUMA node where the fewest do, the largest rooms first."""
    missing -= sum(rooms[gpu] for gpu in bound)
    others = sorted((gpu for gpu in rooms if gpu not in bound), key=lambda gpu: (-rooms[gpu], gpu.code))
    of_one_node = [[gpu for gpu in others if gpu.numa == numa] for numa in dict.fromkeys(gpu.numa for gpu in others)]
    least = _count(others, rooms, missing)
    for group in of_one_node:
        if least and _count(group, rooms, missing) == least:
            return [*bound, *group]
    return [*bound, *others]


def _count(gpus: Sequence[Gpu], rooms: Mapping[Gpu, int], missing: int) -> int:
    """How many of these GPUs, in this order, have that room together; 0 if all have not."""
    for number, gpu in enumerate(gpus, 1):
        missing -= rooms[gpu]
        if missing <= 0:
            return number
    return 0


def too_large(catalog: Catalog, size: int, several: bool) -> str:
    """Why no GPU could ever take a request of this size, whatever is free."""
    largest = max(map(catalog.units, catalog.gpus), default=0)
    if several or size <= largest:
        return ""
    mib = catalog.unit_mib
    return (
        f"{size} units ({size * mib} MiB) are more than any GPU of this node has; the largest has {largest}"
        f" ({largest * mib} MiB), and a container gets units of one GPU only (allow_multi_gpu)"
    )


def refusal(catalog: Catalog, rooms: Mapping[Gpu, int], request: Request) -> str:
    """Why this container gets nothing."""
    if never := too_large(catalog, request.size, request.several):
        return never
    most, all_free = max(rooms.values(), default=0), sum(rooms.values())
    if request.must:
        return (
            f"{request.size} units are wanted with {len(request.must)} that the pod's init container had, and that"
            " GPU has not enough others"
        )
    return (
        f"{request.size} units of one GPU are wanted, and none has more than {most} free; all together have {all_free}"
    )
