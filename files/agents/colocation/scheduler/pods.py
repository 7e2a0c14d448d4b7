# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pods as far as they are load: what the API's documents say, and what a pod is expected to use.

A document comes from the API or from kube-scheduler; a part of it that is not as it should be counts as not said.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from colocation.scheduler.quantity import quantity

Document = Mapping[str, Any]
_FINISHED = ("Succeeded", "Failed")
_PINNED = ("DaemonSet", "Node")  # owners of pods that belong to their node: daemons, and the kubelet's own


class Amount(NamedTuple):
    """Cores and bytes."""

    cpu: float
    memory: float


class Said(NamedTuple):
    """Cores and bytes, as far as somebody said."""

    cpu: float | None
    memory: float | None


NOTHING_SAID = Said(None, None)


@dataclass(frozen=True, slots=True)
class Pod:
    """What scheduling needs to know of a pod."""

    uid: str
    key: str  # namespace/name
    scheduler: str
    owner: str  # pods with the same one are expected to use the same
    node: str
    pinned: bool  # to its node, by a DaemonSet or the kubelet
    finished: bool
    started: bool
    request: Said
    limit: Said
    age: float | None = None  # seconds since it was bound, by the API's clock


@dataclass(frozen=True, slots=True)
class Expectation:
    """How a pod's use is guessed before it can be measured."""

    by: Literal["request", "limit", "learned"]
    unknown: Amount

    def use(self, pod: Pod, learned: Amount | None = None) -> Amount:
        """What it will probably use."""
        if self.by == "learned" and learned is not None:
            return learned
        if self.by == "limit":
            return Amount(*(_first(*pair) for pair in zip(pod.limit, pod.request, self.unknown, strict=True)))
        return self.request(pod)

    def request(self, pod: Pod) -> Amount:
        """What it asks for; one that asks for nothing is not nothing."""
        cpu, memory = pod.request
        return Amount(self.unknown.cpu if cpu is None else cpu, self.unknown.memory if memory is None else memory)


def _first(*amounts: float | None) -> float:
    return next((amount for amount in amounts if amount is not None), 0.0)


def read_pod(document: Document, memory_resources: Mapping[str, float], wall: float | None = None) -> Pod:
    """A pod of the API; its age only where the wall clock is given."""
    metadata, spec, status = (_section(document, name) for name in ("metadata", "spec", "status"))
    namespace, name = _text(metadata, "namespace"), _text(metadata, "name")
    kind, owner = _owner(metadata, name)
    phase = _text(status, "phase")
    return Pod(
        _text(metadata, "uid"),
        f"{namespace}/{name}",
        sys.intern(_text(spec, "schedulerName")),
        sys.intern(f"{namespace}/{kind}/{owner}"),
        sys.intern(_text(spec, "nodeName")),
        kind in _PINNED,
        phase in _FINISHED,
        phase not in ("", "Pending"),
        _needs(spec, "requests", memory_resources),
        _needs(spec, "limits", memory_resources),
        None if wall is None else _age(status, wall),
    )


def _owner(metadata: Document, name: str) -> tuple[str, str]:
    """Who makes pods like this one: its controller, and behind a ReplicaSet the Deployment."""
    owners = [owner for owner in _list(metadata, "ownerReferences") if isinstance(owner, dict)]
    for owner in owners:
        if owner.get("controller") is True:
            kind, owner_name = _text(owner, "kind"), _text(owner, "name")
            template = _text(_section(metadata, "labels"), "pod-template-hash")
            return kind, owner_name.removesuffix(f"-{template}") if template else owner_name
    return "Pod", name


_OfOne = Callable[[Document], float | None]  # what one container needs of a resource


class _Asked(NamedTuple):
    """The parts of a pod's specification that say requests, or those that say limits."""

    whole: Document  # of the pod, where it is said for all together
    running: list[Document]
    before: list[tuple[bool, Document]]  # init containers, and whether each stays beside the others
    overhead: Document


def _needs(spec: Document, what: str, memory_resources: Mapping[str, float]) -> Said:
    """The sum as the scheduler counts it: all that run at a time, and the overhead of the runtime."""
    asked = _Asked(
        _said(spec, what),
        [_said(container, what) for container in _containers(spec, "containers")],
        [(one.get("restartPolicy") == "Always", _said(one, what)) for one in _containers(spec, "initContainers")],
        _section(spec, "overhead"),
    )

    def cpu(part: Document) -> float | None:
        return _amount(part, "cpu")

    def blocks(part: Document) -> float:
        return sum(size * (_amount(part, name) or 0.0) for name, size in memory_resources.items())

    def memory(part: Document) -> float | None:
        """Of a container that has blocks: at least theirs, whatever it says itself."""
        said, lent = _amount(part, "memory"), blocks(part)
        return max(said or 0.0, lent) if lent else said

    every = what == "limits"  # one without a limit may use all
    whole = _amount(asked.whole, "memory")
    if whole is not None:  # only containers can ask for blocks
        whole = max(whole, _of_containers(asked, blocks, False) or 0.0)
    return Said(
        _need(asked, "cpu", _amount(asked.whole, "cpu"), cpu, every), _need(asked, "memory", whole, memory, every)
    )


def _need(asked: _Asked, resource: str, whole: float | None, of_one: _OfOne, every: bool) -> float | None:
    """What is said of all together, or else the sum of its containers."""
    if whole is None:
        whole = _of_containers(asked, of_one, every)
    overhead = quantity(asked.overhead.get(resource)) if asked.overhead else None
    return whole if whole is None or overhead is None else whole + overhead


def _of_containers(asked: _Asked, of_one: _OfOne, every: bool) -> float | None:
    running = [of_one(one) for one in asked.running]
    sidecars: list[float | None] = []
    peaks: list[float | None] = []
    for stays, one in asked.before:
        need = of_one(one)
        if stays:
            sidecars.append(need)
        peaks.append(_sum(sidecars) if stays else _sum([*sidecars, need]))
    together = [*running, *sidecars]
    if every and None in together:
        return None
    return max((need for need in (_sum(together), *peaks) if need is not None), default=None)


def _sum(needs: list[float | None]) -> float | None:
    known = [need for need in needs if need is not None]
    return sum(known) if known else None


def _said(part: Document, what: str) -> Document:
    return _section(_section(part, "resources"), what)


def _containers(spec: Document, name: str) -> Iterator[Document]:
    return (container for container in _list(spec, name) if isinstance(container, dict))


def _amount(resources: Document, resource: str) -> float | None:
    amount = quantity(resources[resource]) if resource in resources else None
    return None if amount is None or amount < 0 else amount


def _age(status: Document, wall: float) -> float | None:
    times = [_text(status, "startTime")]
    conditions = (c for c in _list(status, "conditions") if isinstance(c, dict))
    times += [_text(c, "lastTransitionTime") for c in conditions if c.get("type") == "PodScheduled"]
    for text in filter(None, times):
        try:
            return max(wall - datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp(), 0.0)
        except ValueError:
            continue
    return None


def _section(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Document, name: str) -> list[Any]:
    value = document.get(name)
    return value if isinstance(value, list) else []


def _text(document: Document, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
