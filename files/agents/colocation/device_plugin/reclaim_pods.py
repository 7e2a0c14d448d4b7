# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the API says of a pod, as far as the choice of who goes and its limit depend on it. Documents in, values out."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from colocation.device_plugin.reclaim import Kind

MIRROR = "kubernetes.io/config.mirror"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GRACE_SECONDS = 30.0
_QUANTITY = re.compile(r"((?:\d{1,20}\.?\d{0,9}|\.\d{1,9}))(?:([mkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?", re.ASCII)
_SCALES = {"": Decimal(1), "m": Decimal("0.001")}
_SCALES |= {name: Decimal(1000) ** place for place, name in enumerate("kMGTPE", 1)}
_SCALES |= {f"{name}i": Decimal(1024) ** place for place, name in enumerate("KMGTPE", 1)}


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a pod bears."""

    key: str  # "" is every key
    value: str | None  # None is every value
    effect: str  # "" is every effect


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod. One of which the API never told is the least important, and nobody would start it again."""

    priority: int = 0
    created: float = 0.0
    kind: Kind = Kind.UNMANAGED
    movable: bool = False  # its controller starts it where there is room
    grace: float = GRACE_SECONDS
    others: int = 0  # bytes that containers without blocks may have
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


UNKNOWN = PodFacts()


def is_of(pod: Mapping[str, Any], uid: str) -> bool:
    """Whether it is the pod that the kubelet has under this UID: the API has an image of a static one, with another."""
    metadata = part(pod, "metadata")
    return uid in (metadata.get("uid"), part(metadata, "annotations").get(MIRROR))


def facts(pod: Mapping[str, Any], resource: str) -> PodFacts:
    """From a Pod as the API shows it."""
    metadata, spec = part(pod, "metadata"), part(pod, "spec")
    owner = next((o for o in items(metadata, "ownerReferences") if o.get("controller")), {})
    kind = _kind(metadata, str(owner.get("kind", "")))
    bound = bool(part(part(spec, "affinity"), "nodeAffinity").get(REQUIRED))
    priority, grace = spec.get("priority"), spec.get("terminationGracePeriodSeconds")
    selector = {str(key): str(value) for key, value in part(spec, "nodeSelector").items()}
    return PodFacts(
        priority if isinstance(priority, int) else 0,
        _seconds(metadata.get("creationTimestamp")),
        kind,
        kind is Kind.MANAGED and owner.get("kind") != "DaemonSet" and not bound,
        float(grace) if isinstance(grace, int) else GRACE_SECONDS,
        together(spec, lambda container: _other(container, resource)),
        tuple(sorted(selector.items())),
        tuple(map(_toleration, items(spec, "tolerations"))),
    )


def together(spec: Mapping[str, Any], weigh: Callable[[Mapping[str, Any]], int]) -> int:
    """What a pod's containers come to, as the scheduler counts: all that run side by side, or the largest that runs
    before them."""
    beside = sum(weigh(container) for container in items(spec, "containers"))
    before = 0
    for container in items(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            beside += weigh(container)
        else:
            before = max(before, weigh(container))
    return max(beside, before)


def limit(container: Mapping[str, Any], resource: str) -> int | None:
    """What a container may have of a resource."""
    limits = part(part(container, "resources"), "limits")
    return amount(str(limits[resource])) if resource in limits else None


def part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The mapping that stands there, or an empty one."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def items(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The mappings of the list that stands there."""
    found = document.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def amount(text: str) -> int | None:
    """A quantity of the API as a whole number, rounded up; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SCALES[suffix or ""]
    return math.ceil(Decimal(number) * scale)


def _kind(metadata: Mapping[str, Any], owner: str) -> Kind:
    if owner == "Node" or MIRROR in part(metadata, "annotations"):
        return Kind.STATIC
    return Kind.MANAGED if owner else Kind.UNMANAGED


def _other(container: Mapping[str, Any], resource: str) -> int:
    return 0 if limit(container, resource) else limit(container, "memory") or 0


def _toleration(document: Mapping[str, Any]) -> Toleration:
    value = None if document.get("operator") == "Exists" else str(document.get("value") or "")
    return Toleration(str(document.get("key") or ""), value, str(document.get("effect") or ""))


def _seconds(text: Any) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
