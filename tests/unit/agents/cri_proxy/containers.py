# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Made-up containers, as the kubelet describes them."""

from __future__ import annotations

from collections.abc import Mapping

from colocation.cri_proxy.calls import Creation, Pod, Resources
from colocation.cri_proxy.wishes import Said

GUARANTEED = "/kubepods.slice/kubepods-pod1.slice"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"


def resources(cpus: float = 0, limit: float = 0, memory: int = 0) -> Resources:
    """What the kubelet makes of a request and a limit."""
    shares = max(2, int(round(cpus * 1000) * 1024 / 1000))
    quota, period = (round(limit * 100_000), 100_000) if limit else (0, 100_000)
    return Resources(period, quota, shares, memory)


def pod(
    number: int = 1, annotations: Mapping[str, str] | None = None, namespace: str = "default", parent: str = BURSTABLE
) -> Pod:
    return Pod(f"uid{number}", namespace, f"pod{number}", {}, annotations or {}, parent)


def said(
    wanted: Resources,
    where: Pod | None = None,
    annotations: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Said:
    return Said(where or pod(), "main", wanted, annotations or {}, environment or {})


def creation(
    key: int,
    wanted: Resources,
    where: Pod | None = None,
    container: str = "main",
    attempt: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Creation:
    """A request in the sandbox that belongs to the pod."""
    owner = where or pod(key)
    return Creation(key, f"sandbox-{owner.uid}", owner, container, attempt, wanted, {}, {}, environment or {})
