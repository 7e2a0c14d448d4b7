# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What rounds of pods on four GPUs are made of, whoever plays the kubelet: which pods come, what is restarted, and
whether all that is said of the pods agrees. Pure."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RESOURCE = "doslab.io/gpu-memory"
UUIDS = [f"GPU-{n:08x}-f96b-ba85-c137-78c3652fea65" for n in range(4)]
MIB, UNIT = 81920, int(os.environ.get("COLOCATION_GPU_UNIT_MIB") or 32)
UNITS, GIB = MIB // UNIT, 1024 // UNIT
ALL = len(UUIDS) * UNITS
FILLED = len(UUIDS) * MIB // 1024 * 3 // 4  # GiB at most
UUID, ASSIGNED = "DOSLAB_IO_GPU_UUID", "DOSLAB_IO_GPU_ASSIGNED"
OF_CONTAINER, OF_POD, TOTAL = (
    f"DOSLAB_IO_GPU_RESOURCE_{what}" for what in ("USED_BY_CONTAINER", "USED_BY_POD", "TOTAL")
)
STRIKES = ("restart", "kill", "")
# What share of containers is as booked (`honoured`) over some rounds. It is four fifths: requests are also swapped
# between pods of unlike shapes, and while the agent writes an annotation anew. Who heeds no plan comes to half.
HONOURED = 2 / 3


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod's containers ask for, in GiB; what an init container had is handed on to the others."""

    containers: tuple[int, ...]
    init: int = 0

    @property
    def wants(self) -> dict[str, int]:
        """By container, in the order in which the kubelet serves them."""
        first = {"i0": self.init} if self.init else {}
        return first | {f"c{number}": gib for number, gib in enumerate(self.containers)}

    @property
    def size(self) -> int:
        return max(self.init, sum(self.containers))


# Equal sizes often, for those can be taken for each other. An init container has as much as the others together: with
# less it may find a GPU that has not the rest, if the agent hears of its pod only after the kubelet asks.
SHAPES = (
    *(Shape((4,)),) * 6,
    *(Shape((2,)),) * 2,
    *(Shape((8,)),) * 2,
    Shape((16,)),
    Shape((2, 2)),
    Shape((2, 4)),
    Shape((4, 4)),
    Shape((4,), init=4),
    Shape((2, 2), init=4),
)
SMALLEST = min(shape.size for shape in SHAPES)


def shape_of(pod: Mapping[str, Any]) -> Shape:
    """By its API object."""

    def sizes(part: str) -> tuple[int, ...]:
        return tuple(int(one["resources"]["limits"][RESOURCE]) // GIB for one in pod["spec"].get(part) or ())

    return Shape(sizes("containers"), sum(sizes("initContainers")))


def coming(chance: random.Random, count: int, used: int) -> list[Shape]:
    """So many pods, beside others that have so many GiB. In the end there is a GPU with room for the largest."""
    made: list[Shape] = []
    for later in reversed(range(count)):
        room = FILLED - used - sum(shape.size for shape in made) - later * SMALLEST
        made.append(chance.choice([shape for shape in SHAPES if shape.size <= room]))
    return made


def at_once(shapes: Sequence[Shape], used: int) -> int:
    """How many of these, from the first, find room in any order while so many GiB are still held: on the emptiest GPU
    at worst, which has a fourth of what is free."""
    count = largest = 0
    for shape in shapes:
        used, largest = used + shape.size, max(largest, shape.size)
        if used - largest > len(UUIDS) * (MIB // 1024 - largest):
            break
        count += 1
    return count


def strike(number: int, upper: bool) -> str:
    """What befalls the node in that round: both kinds of rounds get all of it, in the first one not the same."""
    return STRIKES[(number + upper) % len(STRIKES)]


@dataclass(frozen=True, slots=True)
class Told:
    """All that is said of a pod that runs."""

    name: str
    shape: Shape
    ids: Mapping[str, Collection[str]]  # by container: what the kubelet recorded
    environment: Mapping[str, Mapping[str, str]]  # what programs were started with
    annotations: Mapping[str, str]

    @property
    def held(self) -> set[str]:
        return {id for ids in self.ids.values() for id in ids}


def gpus_of(ids: Iterable[str]) -> list[str]:
    """The UUIDs that device IDs name, read by their text."""
    codes = {id.partition("-")[0] for id in ids}
    return [uuid for uuid in UUIDS if uuid[4:12] in codes]


def wrong(pods: Collection[Told]) -> list[str]:
    """Where devices, environment and annotations don't say the same, or a GPU has more holders than memory."""
    return [*(f"{pod.name}: {said}" for pod in pods for said in _wrong_of(pod)), *_wrong_together(pods)]


def _wrong_of(pod: Told) -> Iterator[str]:
    order: dict[str, None] = {}
    for container, gib in pod.shape.wants.items():
        ids, said = pod.ids.get(container, ()), pod.environment.get(container, {})
        gpus = gpus_of(ids)
        order |= dict.fromkeys(gpus)
        if len(gpus) != 1 or len(set(ids)) != gib * GIB:
            yield f"{container} has {len(set(ids))} units of {gpus} and wanted {gib * GIB} of one GPU"
        expected = {
            "NVIDIA_VISIBLE_DEVICES": ",".join(gpus), UUID: ",".join(gpus), OF_CONTAINER: str(gib * 1024),
            TOTAL: str(MIB), OF_POD: said.get(OF_POD) and str(pod.shape.size * 1024),
        }  # fmt: skip
        if found := {name: said.get(name) for name, text in expected.items() if said.get(name) != text}:
            yield f"{container} was told {found} and has {len(set(ids))} units of {gpus}"
    if len(pod.held) != pod.shape.size * GIB:
        yield f"its containers have {len(pod.held)} units together and not {pod.shape.size * GIB}"
    noted = pod.annotations.get(UUID), pod.annotations.get(ASSIGNED)
    if noted != (",".join(order), "true"):
        yield f"is annotated {noted} and has units of {list(order)}"


def _wrong_together(pods: Collection[Told]) -> Iterator[str]:
    counted = Counter(id for pod in pods for id in pod.held)
    if twice := [id for id, count in counted.items() if count > 1]:
        yield f"{len(twice)} units have two holders, {twice[0]} is one of them"
    if strange := [id for id in counted if not gpus_of([id]) or not 0 <= int(id.partition("-")[2]) < UNITS]:
        yield f"{len(strange)} units are of no GPU, {strange[0]} is one of them"
    promised = Counter[str]()
    for pod in pods:
        for container in pod.shape.wants.keys() - {"i0"}:
            said = pod.environment.get(container, {})
            promised[said.get(UUID, "")] += int(said.get(OF_CONTAINER, "0"))
    for uuid, mib in promised.items():
        if mib > MIB:
            yield f"programs were promised {mib} MiB of {uuid or 'no GPU'}"


def wrong_holders(
    rows: Iterable[Sequence[object]], space: str, pods: Iterable[Told], left: Iterable[tuple[str, Collection[str]]] = ()
) -> list[str]:
    """Where the agent's page (pod, container, GPU, amount) differs from the kubelet's record. It may still show what
    is `left` there of pods that ended, by container; whose that was it need not know."""
    shown = {tuple(row) for row in rows}
    true = {(f"{space}/{pod.name}", *_row(one, ids)) for pod in pods for one, ids in pod.ids.items()}
    past = {_row(one, ids) for one, ids in left}
    return [
        *(f"the agent does not know the holder {row}" for row in sorted(true - shown)),
        *(f"the agent knows a holder that is none: {row}" for row in shown - true if row[1:] not in past),
    ]


def _row(container: str, ids: Collection[str]) -> tuple[str, ...]:
    return container, ",".join(gpus_of(ids)), f"{len(ids) * UNIT / 1024:.2f} GiB"


def honoured(plan: Mapping[str, str], pods: Iterable[Told]) -> tuple[int, int]:
    """How many containers have a GPU that was booked for one of their size, and how many were booked; `plan` has the
    GPU by pod. Between equal requests a swap is legal, so who has it does not count."""
    booked, got = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for pod in pods:
        if pod.name in plan:
            for number, gib in enumerate(pod.shape.containers):
                booked[gib, plan[pod.name]] += 1
                got[gib, ",".join(gpus_of(pod.ids.get(f"c{number}", ())))] += 1
    return (booked & got).total(), booked.total()


def filled(pods: Iterable[Told]) -> list[int]:
    """Percents of each GPU."""
    counted = Counter(id.partition("-")[0] for pod in pods for id in pod.held)
    return [counted[uuid[4:12]] * 100 // UNITS for uuid in UUIDS]
