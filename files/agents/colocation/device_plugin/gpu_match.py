# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whom an Allocate of the kubelet may be for. Pure.

The kubelet names devices and no pod. What is known: the container asks for exactly so many units, it has none yet, and
its pod is on this node and has not ended. Of those who could be meant one is *taken*, by the plan of the upper
scheduler: a pod whose annotation names the GPU before one without, before one with another; then the oldest
ASSUME_TIME. Between equal requests a mistake does no harm: what a container gets follows from its devices alone, and
annotations are written from what the kubelet recorded. Two things would do harm and are not done:

- to say how much the whole pod has, where the pods that could be meant differ in that: then nothing is said of it;
- to refuse somebody because his place in the plan was taken for another: who was taken only comes after who was not.

Only if nobody at all could be meant there is no match, and that is an error, where the API itself says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass

from colocation.device_plugin.devices import Refused
from colocation.device_plugin.gpu_pods import Pod, Want, total

Key = tuple[str, str]  # a pod's UID and a container's name


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container that may be the one, and how likely it is."""

    pod: Pod
    want: Want
    doubts: tuple[bool, bool, bool, bool]  # taken before, not pending, ending, a container before it waits as well

    @property
    def key(self) -> Key:
        return self.pod.uid, self.want.container

    @property
    def ahead(self) -> int:
        """Units that its pod wants together from this container on."""
        return total(self.pod.wants[self.pod.wants.index(self.want) :])


@dataclass(frozen=True, slots=True)
class Match:
    """Whom an allocation is taken to be for."""

    candidate: Candidate
    total: int | None  # units of his pod, where that is certain
    swapped: bool  # the plan had another GPU for him


def candidates(pods: Iterable[Pod], served: Collection[Key], taken: Collection[Key], units: int) -> list[Candidate]:
    """All who may get so many units; `served` have theirs by the kubelet's record, `taken` only by our guess."""
    found: list[Candidate] = []
    for pod in pods:
        waits = False
        for want in pod.wants:
            key = (pod.uid, want.container)
            if key in served:
                continue
            if want.units == units:
                found.append(Candidate(pod, want, (key in taken, not pod.pending, pod.ending, waits)))
            waits = waits or key not in taken
    return found


def booked(pods: Iterable[Pod], served: Collection[Key], taken: Collection[Key]) -> dict[str, int]:
    """Units that the plan has for containers that wait, by the UUID of the GPU."""
    found: dict[str, int] = {}
    gone = {*served, *taken}
    for pod in pods:
        waiting = [want for want in pod.wants if (pod.uid, want.container) not in gone]
        if pod.wish and waiting and pod.pending and not pod.ending:  # one that runs or ends may be on record no more
            found[pod.wish] = found.get(pod.wish, 0) + total(waiting)
    return found


def planned(found: Iterable[Candidate]) -> list[Candidate]:
    """In the order of the plan: those without doubts first, then by ASSUME_TIME."""
    return sorted(found, key=lambda one: (one.doubts, *_age(one.pod)))


def match(found: Collection[Candidate], uuids: Set[str], units: int, resource: str) -> Match:
    """Whom devices of these GPUs are for, or Refused."""
    if not found:
        raise Refused(
            f"no pod of this node waits for {units} units of {resource}, so these are given to nobody; the kubelet"
            " and the API must differ"
        )

    def order(one: Candidate) -> tuple[object, ...]:
        wish = one.pod.wish
        return one.doubts, 0 if wish in uuids else 1 if not wish else 2, *_age(one.pod)

    best = min(found, key=order)
    totals = {one.pod.total for one in found}
    return Match(
        best,
        totals.pop() if len(totals) == 1 else None,
        bool(best.pod.wish) and best.pod.wish not in uuids,
    )


def _age(pod: Pod) -> tuple[int, str, str]:
    return pod.assumed, pod.created, pod.uid
