# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a container learns of its units, and what the annotations of pods should say. Pure.

Amounts are in MiB, whatever the unit is, so that a program need not know it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from colocation.device_plugin.devices import Grant
from colocation.device_plugin.gpu_match import Key
from colocation.device_plugin.gpu_pods import ASSIGNED, UUID, Pod
from colocation.device_plugin.gpus import Catalog, Gpu

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
USED = "DOSLAB_IO_GPU_RESOURCE_USED_BY_"
OF_POD, OF_CONTAINER = f"{USED}POD", f"{USED}CONTAINER"
TOTAL = "DOSLAB_IO_GPU_RESOURCE_TOTAL"


def grant(catalog: Catalog, gpus: Sequence[Gpu], units: int, of_pod: int | None, cdi_kind: str) -> Grant:
    """For a container with so many units of these GPUs; `of_pod` is None where nobody can say whose it is."""
    listed = ",".join(gpu.uuid for gpu in gpus)
    environment = {
        VISIBLE: listed,
        UUID: listed,
        OF_CONTAINER: str(units * catalog.unit_mib),
        TOTAL: str(sum(gpu.memory_mib for gpu in gpus)),
    }
    if of_pod is not None:
        environment[OF_POD] = str(of_pod * catalog.unit_mib)
    return Grant(environment, cdi=tuple(f"{cdi_kind}={gpu.uuid}" for gpu in gpus) if cdi_kind else ())


@dataclass(frozen=True, slots=True)
class Note:
    """Annotations that a pod should get."""

    pod: Pod
    annotations: Mapping[str, str]
    of: str = ""  # UID of the pod whose former choice this is


def notes(pods: Collection[Pod], recorded: Mapping[Key, Sequence[str]], left: Collection[str] = ()) -> Iterator[Note]:
    """What has to be written so that annotations say what the kubelet recorded: by container, UUIDs of its GPUs.

    A pod that got the GPU which another one of the same shape waits for leaves it its own: so the plan of the upper
    scheduler still adds up. That is written first; if we end in between, only the plan is less good. `left` are UIDs of
    pods for which it is written: while their own note is refused, they leave their choice to nobody else.
    """
    waiting = [pod for pod in pods if not any((pod.uid, want.container) in recorded for want in pod.wants)]
    for pod in pods:
        got = uuids_of(pod, recorded)
        if not got:
            continue
        wanted = {UUID: ",".join(got), ASSIGNED: "true"}
        if (pod.wish, pod.assigned) == tuple(wanted.values()):
            continue
        other = next((one for one in waiting if pod.uid not in left and _may_swap(pod, got, one)), None)
        if other is not None:
            waiting.remove(other)
            yield Note(other, {UUID: pod.wish}, pod.uid)
        yield Note(pod, wanted)


def settled(
    pods: Collection[Pod], recorded: Mapping[Key, Sequence[str]], left: Collection[str] = ()
) -> tuple[Pod, ...]:
    """The pods as they will be when all notes are written."""
    found = {pod.uid: pod for pod in pods}
    for note in notes(pods, recorded, left):
        found[note.pod.uid] = replace(note.pod, wish=note.annotations[UUID])
    return tuple(found.values())


def _may_swap(pod: Pod, got: Sequence[str], other: Pod) -> bool:
    return bool(pod.wish) and pod.wish not in got and other.wish in got and other.shape == pod.shape


def uuids_of(pod: Pod, recorded: Mapping[Key, Sequence[str]]) -> tuple[str, ...]:
    """The GPUs of a pod, in the order of its containers; none before all of them have theirs."""
    found: dict[str, None] = {}
    for want in pod.wants:
        uuids = recorded.get((pod.uid, want.container))
        if uuids is None:
            return ()
        found |= dict.fromkeys(uuids)
    return tuple(found)


def by_container(catalog: Catalog, held: Iterable[tuple[Key, Sequence[str]]]) -> dict[Key, tuple[str, ...]]:
    """UUIDs for each container's devices; those of a GPU that is no more can't be said."""
    found: dict[Key, tuple[str, ...]] = {}
    for key, ids in held:
        gpus = {gpu.uuid for id in ids if (gpu := catalog.gpu_of(id))}
        if gpus:
            found[key] = tuple(gpu.uuid for gpu in catalog.gpus if gpu.uuid in gpus)
    return found
