# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Empties a node of its pods through the Eviction API, as long as a time limit lets it.

`judge` is pure: what a pod is to a drain. DaemonSets' pods and the mirrors of static ones stay, for they would come
back at once; pods that have ended go without being waited for; a pod that nothing would start again elsewhere is only
taken when the user says so. Disruption budgets are honoured: an eviction that is refused is asked for again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path

STAYS, EVICT, BARE = "stays", "evict", "bare"
ENDED = ("Succeeded", "Failed")
MIRROR = "kubernetes.io/config.mirror"
PAUSE = 3.0
_TOO_MANY, _GONE, _CONFLICT, _FORBIDDEN, _TWO_BUDGETS = 429, 404, 409, 403, 500
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Left:
    """A pod that is still there, and why."""

    pod: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pod} ({self.reason})"


def judge(pod: Mapping[str, Any], daemonsets: Collection[Name]) -> str:
    """What a pod is to a drain; `daemonsets` are namespace and name of those that exist."""
    metadata = pod.get("metadata") or {}
    if MIRROR in (metadata.get("annotations") or {}):
        return STAYS
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    if (pod.get("status") or {}).get("phase") in ENDED:
        return EVICT
    if owner is None:
        return BARE
    if owner.get("kind") == "DaemonSet" and (metadata.get("namespace", ""), owner.get("name", "")) in daemonsets:
        return STAYS
    return EVICT


def full_name(pod: Mapping[str, Any]) -> str:
    metadata = pod.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def bare_pods(pods: Iterable[Mapping[str, Any]], daemonsets: Collection[Name]) -> list[str]:
    """Those that would be lost for good; one that is on its way out anyhow is not lost by us."""
    going = (pod for pod in pods if not (pod.get("metadata") or {}).get("deletionTimestamp"))
    return sorted(full_name(pod) for pod in going if judge(pod, daemonsets) == BARE)


class Drain:
    """One drain of one node, which is cordoned already."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        daemonsets: Collection[Name],
        *,
        take_bare: bool = False,
        alive: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._node = node
        self._daemonsets = daemonsets
        self._take_bare = take_bare
        self._alive = alive  # called between rounds: the lock has to be renewed
        self._clock = clock
        self._sleep = sleep
        self._accepted: set[str] = set()
        self.evicted: list[str] = []

    def run(self, timeout: float, is_dead: Callable[[], bool]) -> list[Left]:
        """Evict until the node is empty or the time is over; who is left then.

        A dead node's kubelet confirms no end, so each of its pods is asked for once, that others may be started
        elsewhere, and none is waited for. It may turn out to be dead only after a while.
        """
        end = self._clock() + timeout
        while True:
            left = self._round()
            if not left or is_dead():
                return []
            if self._clock() >= end:
                return left
            self._sleep(min(PAUSE, max(0.0, end - self._clock())))
            self._alive()

    def _round(self) -> list[Left]:
        left = []
        for pod in pods_on(self._client, self._node):
            verdict = judge(pod, self._daemonsets)
            if verdict == STAYS:
                continue
            bare = verdict == BARE and not self._take_bare
            why = "no controller would start it again elsewhere; rejoin_delete_bare_pods" if bare else self._evict(pod)
            if why:
                left.append(Left(full_name(pod), why))
        return left

    def _evict(self, pod: Mapping[str, Any]) -> str:
        """Why a pod is still there; empty when it is gone."""
        metadata = pod["metadata"]
        uid = str(metadata.get("uid", ""))
        if uid in self._accepted or metadata.get("deletionTimestamp"):
            return "it is ending"
        base = api_path("api", "v1", "namespaces", metadata["namespace"], "pods", metadata["name"])
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": {"preconditions": {"uid": uid}},  # never its successor of the same name
        }
        try:
            self._client.post(f"{base}/eviction", body)
        except ApiError as error:
            if error.status in (_GONE, _CONFLICT):  # it went; or there is another of its name, seen in the next round
                return "" if error.status == _GONE else "another pod took its name"
            if error.status == _FORBIDDEN and any(cause.reason == "NamespaceTerminating" for cause in error.causes):
                return "its namespace is being deleted"
            if error.status in (_TOO_MANY, _TWO_BUDGETS):
                causes = "; ".join(cause.message for cause in error.causes if cause.message)
                return causes or error.message
            raise
        self._accepted.add(uid)
        self.evicted.append(full_name(pod))
        return "it is ending"


def pods_on(client: KubeClient, node: str) -> list[dict[str, Any]]:
    return client.items(api_path("api", "v1", "pods"), field_selector=f"spec.nodeName={node}")
