# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is asked of the API to take blocks back: first that the node offers less, then that a pod is evicted.

The eviction names the pod's UID, so that a namesake that was started meanwhile is not meant. 429 is a disruption budget
that says no; nothing is tried again here, for the next round may choose another pod.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from colocation.common.kube_api import ApiError, KubeApi
from colocation.device_plugin.reclaim_view import PodHolding

BUDGET_SECONDS = 10.0  # until a budget is asked again, where the API does not say when


class Said(enum.Enum):
    """What the API said to an eviction."""

    DONE = "done"  # the pod is ending
    GONE = "gone"  # there is no such pod any more
    REFUSED = "refused"  # by a disruption budget
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """And what follows from it."""

    said: Said
    why: str = ""
    again: float = 0.0  # seconds until a refusal may be over


def eviction(pod: PodHolding) -> dict[str, Any]:
    """The request's body."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def pod_path(pod: PodHolding) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"


def evict(api: KubeApi, pod: PodHolding) -> Answer:
    """Ask for a pod's eviction."""
    try:
        api.post(f"{pod_path(pod)}/eviction", eviction(pod))
    except ApiError as problem:
        return judged(problem)
    return Answer(Said.DONE)


def judged(problem: ApiError) -> Answer:
    """What a refusal of the API means."""
    if problem.status == 429:
        return Answer(Said.REFUSED, str(problem), problem.retry_after or BUDGET_SECONDS)
    if problem.status == 500 and "more than one PodDisruptionBudget" in str(problem):
        return Answer(Said.REFUSED, str(problem), BUDGET_SECONDS)  # the API evicts no such pod
    if problem.status in (404, 409):
        return Answer(Said.GONE, str(problem))
    return Answer(Said.FAILED, str(problem))


def offer(api: KubeApi, node: str, resource: str, blocks: int) -> str:
    """Put what the node offers on its status at once (the kubelet does it every ten seconds); why it did not work."""
    try:
        api.patch(f"/api/v1/nodes/{quote(node, safe='')}/status", {"status": {"allocatable": {resource: str(blocks)}}})
    except ApiError as problem:
        return str(problem)
    return ""
