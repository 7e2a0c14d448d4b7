# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where a container goes. Values in, a choice out: no files, no clock, no container is remembered here.

The table, with the CPUs that a container wants against what may be used of the machine:

    wanted <= CCX          one CCX
    wanted <= NUMA         one NUMA node
    wanted <= NUMA + CCX   a NUMA node and the nearest CCX of another
    wanted <= 2 NUMA       the two nearest NUMA nodes
    else                   a socket, or the whole machine

The first line that has a place large enough decides the *shape*; sizes are counted, not assumed, so a CCX that lost a
CPU to the system takes smaller containers than its sisters. Among the places of that shape, in this order: those with
room for it; those without batch containers (for a batch container: without online ones); near its devices; near the
pod's other containers; the emptiest, with it; the first. Load is what containers asked for.

Shared containers run on all of the CPUs of their place that nobody holds alone. An exclusive container holds its CPUs
alone, whole cores first; it never takes the last CPU of a CCX from those who share it, nor what they asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from colocation.cri_proxy.cpus import members, union
from colocation.cri_proxy.topology import Machine

LEAST_WEIGHT = 100  # thousandths of a CPU that a container counts that asks for less, as in kube-scheduler's scores


class Shape(enum.IntEnum):
    """The lines of the table, in their order."""

    CCX = 0
    NUMA = 1
    NUMA_CCX = 2
    TWO_NUMA = 3
    SOCKET = 4
    MACHINE = 5


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a shape."""

    shape: Shape
    ccxs: tuple[int, ...]  # by index
    cpus: int
    numas: tuple[int, ...]  # by position, for tables of distances
    distance: int = 0  # between its parts


@dataclass(frozen=True, slots=True)
class Want:
    """A container, as far as its place depends on it."""

    milli: int  # thousandths of a CPU
    batch: bool = False
    near: int = 0  # NUMA nodes of the pod's other containers
    devices: int = 0  # NUMA nodes of its devices
    shape: Shape | None = None  # wanted by name, whatever its size
    alone: int = 0  # CPUs to hold alone; 0 to share

    @property
    def weight(self) -> int:
        return max(self.milli, LEAST_WEIGHT)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where it goes. Of shared containers `alone` is empty and `cpus` is all of the place that nobody holds alone."""

    shape: Shape
    ccxs: tuple[int, ...]
    cpus: int
    alone: int = 0


@dataclass(slots=True)
class Loads:
    """What the CCXs carry, by index: kept by the ledger, read here."""

    booked: list[int]  # millionths of a CPU that shared containers asked for
    shared: list[int]  # how many share it
    batch: list[int]  # how many of these are batch
    held: int = 0  # CPUs that exclusive containers hold

    @classmethod
    def none(cls, ccxs: int) -> Loads:
        return cls([0] * ccxs, [0] * ccxs, [0] * ccxs)


@dataclass(frozen=True, slots=True)
class Layout:
    """A machine without the CPUs that no container gets, and all places on it."""

    machine: Machine
    usable: int
    ccx_cpus: tuple[int, ...]  # usable ones, by index
    ccx_numa: tuple[int, ...]  # position of the NUMA node, by index
    places: tuple[tuple[Place, ...], ...]  # by shape, the nearest first
    distances: tuple[tuple[int, ...], ...]  # by position
    numas: tuple[int, ...]  # ids by position

    @classmethod
    def of(cls, machine: Machine, reserved: int = 0) -> Layout:
        usable = machine.online & ~machine.isolated & ~reserved
        numas = machine.numas
        position = {numa.id: number for number, numa in enumerate(numas)}
        ccx_cpus = tuple(ccx.cpus & usable for ccx in machine.ccxs)
        ccx_numa = tuple(position[ccx.numa] for ccx in machine.ccxs)
        distances = tuple(tuple(machine.distance(one.id, other.id) for other in numas) for one in numas)
        places = _Places(machine, ccx_cpus, ccx_numa, distances)
        return cls(machine, usable, ccx_cpus, ccx_numa, places.all(), distances, tuple(position))

    def numa_ids(self, ccxs: Iterable[int]) -> int:
        """The set of NUMA nodes that these CCXs are in."""
        return union(1 << self.numas[self.ccx_numa[index]] for index in ccxs)

    def positions(self, numa_ids: int) -> list[int]:
        """Of NUMA nodes in a set; those that have no CPU are left out."""
        return [position for position, numa in enumerate(self.numas) if numa_ids >> numa & 1]

    def cpus_of(self, ccxs: Iterable[int]) -> int:
        return union(self.ccx_cpus[index] for index in ccxs)


class _Places:
    """Finds all places of a machine."""

    def __init__(
        self,
        machine: Machine,
        ccx_cpus: Sequence[int],
        ccx_numa: Sequence[int],
        distances: Sequence[Sequence[int]],
    ) -> None:
        self._cpus = ccx_cpus
        self._numa = ccx_numa
        self._distances = distances
        self._sockets = [tuple(ccx.index for numa in s.numas for ccx in numa.ccxs) for s in machine.sockets]

    def all(self) -> tuple[tuple[Place, ...], ...]:
        ccxs = [index for index, cpus in enumerate(self._cpus) if cpus]
        nodes = {node: [index for index in ccxs if self._numa[index] == node] for node in dict.fromkeys(self._numa)}
        nodes = {node: inside for node, inside in nodes.items() if inside}
        sockets = [[index for index in socket if self._cpus[index]] for socket in self._sockets]
        extra = [
            self._place(Shape.NUMA_CCX, [*inside, ccx], self._distances[node][self._numa[ccx]])
            for node, inside in nodes.items()
            for ccx in ccxs
            if self._numa[ccx] != node and len(nodes[self._numa[ccx]]) > 1
        ]
        pairs = [
            self._place(Shape.TWO_NUMA, [*nodes[one], *nodes[other]], self._distances[one][other])
            for one in nodes
            for other in nodes
            if one < other
        ]
        return (
            tuple(self._place(Shape.CCX, [index]) for index in ccxs),
            tuple(self._place(Shape.NUMA, inside) for inside in nodes.values()),
            tuple(sorted(extra, key=lambda place: place.distance)),
            tuple(sorted(pairs, key=lambda place: place.distance)),
            tuple(self._place(Shape.SOCKET, inside) for inside in sockets if inside),
            (self._place(Shape.MACHINE, ccxs),) if ccxs else (),
        )

    def _place(self, shape: Shape, ccxs: Sequence[int], distance: int = 0) -> Place:
        numas = tuple(dict.fromkeys(self._numa[index] for index in ccxs))
        return Place(shape, tuple(ccxs), union(self._cpus[index] for index in ccxs), numas, distance)


def choose(layout: Layout, loads: Loads, want: Want, apart: bool = True) -> Choice | None:
    """The place for a container; None where no CPU is left. `apart` keeps batch containers away from online ones."""
    if want.alone:
        choice = _choose_alone(layout, loads, want, apart)
        if choice is not None:
            return choice
    fitting = _fitting(layout, loads, want)
    if not fitting:
        return None
    place = _best(layout, loads, want, fitting, apart)
    return Choice(place.shape, place.ccxs, place.cpus & ~loads.held)


def stay(layout: Layout, loads: Loads, want: Want, ccxs: Sequence[int]) -> Choice | None:
    """The choice of the place that a container has, if it is among those that it could be given."""
    where = sorted(ccxs)
    for place in _fitting(layout, loads, want):
        if sorted(place.ccxs) == where:
            return Choice(place.shape, place.ccxs, place.cpus & ~loads.held)
    return None


def stay_alone(layout: Layout, loads: Loads, want: Want, cpus: int) -> Choice | None:
    """The choice of the CPUs that a container holds alone, if they are as many as it wants and nobody else has them."""
    if not want.alone or cpus.bit_count() != want.alone or cpus & (loads.held | ~layout.usable):
        return None
    return _alone(layout, cpus)


def memory_nodes(machine: Machine, numa_ids: int, limit_bytes: int) -> int:
    """NUMA nodes to take memory from: those given, and the nearest ones until the limit fits; 0 for all of them."""
    sizes = machine.memory_kib
    near = sorted(
        sizes, key=lambda node: (min((machine.distance(own, node) for own in members(numa_ids)), default=0), node)
    )
    taken = [node for node in near if numa_ids >> node & 1] or near[:1]
    for node in near:
        if sum(sizes[one] for one in taken) << 10 >= limit_bytes:
            break
        if node not in taken:
            taken.append(node)
    return union(1 << node for node in taken)


def _fitting(layout: Layout, loads: Loads, want: Want) -> Sequence[Place]:
    """The places that the table allows: of the first shape that has any large enough, those as near as can be."""
    least = 1 if want.shape is not None else max(1, -(-want.milli // 1000))
    for places in _shapes(layout, want.shape):
        fitting = [place for place in places if (place.cpus & ~loads.held).bit_count() >= least]
        if fitting:
            return _nearest(fitting)
    return [place for place in layout.places[Shape.MACHINE] if place.cpus & ~loads.held]


def _shapes(layout: Layout, wanted: Shape | None) -> Sequence[tuple[Place, ...]]:
    return layout.places if wanted is None else (layout.places[wanted],)


def _nearest(places: Sequence[Place]) -> Sequence[Place]:
    """Those whose parts are as near as can be; places come the nearest first."""
    if places[0].distance == places[-1].distance:
        return places
    return [place for place in places if place.distance == places[0].distance]


def _best(layout: Layout, loads: Loads, want: Want, places: Sequence[Place], apart: bool) -> Place:
    """The place that the order above puts first."""
    booked, shared, batch, free = loads.booked, loads.shared, loads.batch, ~loads.held
    weight = want.weight * 1000
    far = _far(layout, want)
    mixed = apart and any(batch if not want.batch else (all_ - own for all_, own in zip(shared, batch, strict=True)))
    best, best_rank = places[0], None
    for place in places:
        ccxs = place.ccxs
        if len(ccxs) == 1:
            load, count = booked[ccxs[0]], shared[ccxs[0]]
        else:
            load = count = 0
            for index in ccxs:
                load += booked[index]
                count += shared[index]
        size = (place.cpus & free).bit_count()
        others = 0
        if mixed:
            others = sum(1 for index in ccxs if (shared[index] > batch[index] if want.batch else batch[index]))
        away = min([far[numa] for numa in place.numas]) if far else 0
        rank = (load + weight > size * 1_000_000, others, away, (load + weight) / size, count / size)
        if best_rank is None or rank < best_rank:
            best, best_rank = place, rank
    return best


def _far(layout: Layout, want: Want) -> list[int]:
    """How far each NUMA node is from the devices, then from the pod's other containers; empty where none is known."""
    if not want.near and not want.devices:
        return []
    devices, near = layout.positions(want.devices), layout.positions(want.near)
    return [
        (min((row[one] for one in devices), default=0) << 16) + min((row[one] for one in near), default=0)
        for row in layout.distances
    ]


def _choose_alone(layout: Layout, loads: Loads, want: Want, apart: bool) -> Choice | None:
    """CPUs for a container alone; None where they can't be had without harm to those who share."""
    if (layout.usable & ~loads.held).bit_count() <= want.alone:
        return None  # somebody will want to share a CPU
    spare = [_spare(layout, loads, index) for index in range(len(layout.ccx_cpus))]
    for places in _shapes(layout, want.shape):
        fitting = [place for place in places if sum(spare[index] for index in place.ccxs) >= want.alone]
        if fitting:
            place = _best(layout, loads, want, _nearest(fitting), apart)
            return _alone(layout, _pick(layout, loads, place.ccxs, spare, want.alone))
    return None


def _alone(layout: Layout, cpus: int) -> Choice:
    """The choice of these CPUs, with the narrowest shape that has them all."""
    ccxs = tuple(index for index, own in enumerate(layout.ccx_cpus) if own & cpus)
    shape = next(place.shape for places in layout.places for place in places if not cpus & ~place.cpus)
    return Choice(shape, ccxs, cpus, cpus)


def _spare(layout: Layout, loads: Loads, index: int) -> int:
    """CPUs of a CCX that those who share it can do without."""
    free = (layout.ccx_cpus[index] & ~loads.held).bit_count()
    kept = max(1, -(-loads.booked[index] // 1_000_000)) if loads.shared[index] else 0
    return max(0, free - kept)


def _pick(layout: Layout, loads: Loads, ccxs: Sequence[int], spare: Sequence[int], count: int) -> int:
    """So many CPUs of these CCXs: from as few CCXs as can be, whole cores before single threads."""
    picked = 0
    for index in sorted(ccxs, key=lambda index: (-spare[index], index)):
        room = min(spare[index], count - picked.bit_count())
        free = layout.ccx_cpus[index] & ~loads.held
        cores = sorted(layout.machine.ccxs[index].cores, key=lambda core: core & free != core)  # whole ones first
        taken = 0
        for cpu in (cpu for core in cores for cpu in members(core & free)):
            if taken.bit_count() == room:
                break
            taken |= 1 << cpu
        picked |= taken
    return picked
