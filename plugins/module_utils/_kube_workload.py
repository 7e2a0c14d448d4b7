# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether what runs in the cluster got ready, and why not, in the words of its pods.

A Deployment or DaemonSet is ready when all of it runs what it was told last; a Pod of a trial, when it ended well. The
reason comes from where a person would look: the scheduler's word, the kubelet's word, the last lines of the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_objects import Name, Objects

WORKLOADS = ("Deployment", "DaemonSet")
LOG_LINES = 12
LOOK_EVERY = 1.0
Document = Mapping[str, Any]


def unready(workload: Document) -> str:
    """What is missing until all of a Deployment or DaemonSet runs what it was told; empty when nothing is."""
    status = workload.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(workload["metadata"].get("generation") or 0):
        return "its controller has not looked at it yet; does kube-controller-manager run?"
    if workload["kind"] == "DaemonSet":
        wanted = int(status.get("desiredNumberScheduled") or 0)
        updated, available, old = status.get("updatedNumberScheduled"), status.get("numberAvailable"), 0
    else:
        wanted = int(workload["spec"].get("replicas", 1))
        updated, available = status.get("updatedReplicas"), status.get("availableReplicas")
        old = int(status.get("replicas") or 0) - int(updated or 0)
    if int(updated or 0) < wanted or int(available or 0) < wanted:
        return f"of {wanted} pods {updated or 0} are new and {available or 0} available"
    return f"{old} old pods are not gone yet" if old > 0 else ""


class Watch:
    """Waits, by one clock, for what is to happen in the cluster."""

    def __init__(
        self,
        objects: Objects,
        limit: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._objects = objects
        self._limit = limit
        self._clock = clock
        self._sleep = sleep

    def until(self, done: Callable[[], str]) -> str:
        """Ask until nothing is missing; what still is when the time is over."""
        end = self._clock() + self._limit
        while True:
            missing = done()
            if not missing or self._clock() >= end:
                return missing
            self._sleep(LOOK_EVERY)

    def ready(self, workloads: Iterable[Name]) -> str:
        """Wait until all are; why not, with what their pods say."""
        for name in workloads:
            missing = self.until(lambda name=name: self._missing(name))  # type: ignore[misc]
            if missing:
                return "\n".join([f"{name} is not ready after {self._limit:.0f} s: {missing}", *self._pods(name)])
        return ""

    def ended(self, pod: Name) -> str:
        """Wait until a pod has ended; empty if well, else why not."""
        missing = self.until(lambda: self._running(pod))
        found = self._objects.find(pod)
        if found is None:
            return f"{pod} is gone"
        if not missing and found["status"]["phase"] == "Succeeded":
            return ""
        late = f" did not end within {self._limit:.0f} s" if missing else " failed"
        return "\n".join([f"{pod}{late}", *_said(self._objects.api, found)])

    def gone(self, name: Name) -> str:
        return self.until(lambda: f"{name} is still there" if self._objects.find(name) else "")

    def _missing(self, name: Name) -> str:
        found = self._objects.find(name)
        return unready(found) if found else "it is gone"

    def _running(self, pod: Name) -> str:
        found = self._objects.find(pod) or {"status": {"phase": "Succeeded"}}
        return "" if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed") else "it runs"

    def _pods(self, name: Name) -> Iterator[str]:
        """What the pods of a workload say that are not ready, the youngest first."""
        workload = self._objects.find(name) or {}
        labels = workload.get("spec", {}).get("selector", {}).get("matchLabels") or {}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = self._objects.api.items(api_path("api", "v1", "namespaces", name.namespace, "pods"), selector)
        waiting = [pod for pod in pods if not _is_ready(pod)]
        waiting.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
        for pod in waiting[:2]:
            yield f"Pod {pod['metadata']['name']}"
            yield from _said(self._objects.api, pod)


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _said(api: KubeClient, pod: Document) -> Iterator[str]:
    """Why a pod does not run, from what the scheduler, the kubelet and the containers say."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"  not scheduled: {condition.get('message') or condition.get('reason')}"
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state, last = container.get("state") or {}, container.get("lastState") or {}
        told = state.get("waiting") or state.get("terminated")
        if told is None and container.get("ready"):
            continue
        told = told or {"reason": "runs, and is not ready"}
        ended = state.get("terminated") or last.get("terminated") or {}
        code = f", last exit status {ended['exitCode']}" if "exitCode" in ended else ""
        if ended.get("exitCode") == 0 and "terminated" in state:
            continue
        yield f"  {container['name']}: {told.get('reason')}{code} {told.get('message') or ''}".rstrip()
        if ended or "running" in state:
            yield from _log(api, pod, container["name"], "running" not in state and "terminated" not in state)


def _log(api: KubeClient, pod: Document, container: str, previous: bool) -> Iterator[str]:
    metadata = pod["metadata"]
    path = api_path("api", "v1", "namespaces", metadata["namespace"], "pods", metadata["name"], "log")
    query = {"container": container, "tailLines": str(LOG_LINES), "previous": "true" if previous else ""}
    try:
        text = api.text(path, query)
    except ApiError as problem:
        text = f"(no log: {problem.message})"
    yield from (f"    {line}" for line in text.splitlines()[-LOG_LINES:])
