# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the API says of a pod, as far as the choice of who goes and its limit depend on it. Documents in, values out."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
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
    """One pod. What is not known (the API never answered) is as for the least important of pods."""

    priority: int = 0
    created: float = 0.0
    kind: Kind = Kind.MANAGED
    movable: bool = False  # its controller starts it where there is room
    grace: float = GRACE_SECONDS
    others: int = 0  # bytes that containers without blocks may have
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


UNKNOWN = PodFacts()


def facts(pod: Mapping[str, Any], resource: str) -> PodFacts:
    """From a Pod as the API shows it."""
    metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    owner = next((o for o in _list(metadata.get("ownerReferences")) if o.get("controller")), {})
    kind = _kind(metadata, str(owner.get("kind", "")))
    bound = bool(_mapping(_mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED))
    grace = spec.get("terminationGracePeriodSeconds")
    selector = {str(key): str(value) for key, value in _mapping(spec.get("nodeSelector")).items()}
    return PodFacts(
        _whole(spec.get("priority")),
        _seconds(metadata.get("creationTimestamp")),
        kind,
        kind is Kind.MANAGED and owner.get("kind") != "DaemonSet" and not bound,
        float(grace) if isinstance(grace, int) else GRACE_SECONDS,
        _others(spec, resource),
        tuple(sorted(selector.items())),
        tuple(map(_toleration, _list(spec.get("tolerations")))),
    )


def _kind(metadata: Mapping[str, Any], owner: str) -> Kind:
    if owner == "Node" or MIRROR in _mapping(metadata.get("annotations")):
        return Kind.STATIC
    return Kind.MANAGED if owner else Kind.UNMANAGED


def _others(spec: Mapping[str, Any], resource: str) -> int:
    """The limits of containers without blocks: all that run side by side, or the largest that runs before them."""
    beside, before = 0, 0
    for container in _list(spec.get("containers")):
        beside += _limit(container, resource)
    for container in _list(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            beside += _limit(container, resource)
        else:
            before = max(before, _limit(container, resource))
    return max(beside, before)


def _limit(container: Mapping[str, Any], resource: str) -> int:
    limits = _mapping(_mapping(container.get("resources")).get("limits"))
    if resource in limits or "memory" not in limits:
        return 0
    return amount(str(limits["memory"])) or 0


def amount(text: str) -> int | None:
    """A quantity of the API as a whole number, rounded up; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SCALES[suffix or ""]
    return math.ceil(Decimal(number) * scale)


def _toleration(document: Mapping[str, Any]) -> Toleration:
    value = None if document.get("operator") == "Exists" else str(document.get("value") or "")
    return Toleration(str(document.get("key") or ""), value, str(document.get("effect") or ""))


def _seconds(text: Any) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()
