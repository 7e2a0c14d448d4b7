# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Events on pods and on the Node: what was done or happened, why, and with which figures.

One Event for each object and reason; it is counted up when the same happens again, as the kubelet does, so that hours
of trouble don't fill etcd.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from colocation.common.kube_api import MERGE_PATCH, ApiError, KubeApi

MOST_MESSAGE = 1024
NODE_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Source:
    """Who tells it."""

    component: str
    host: str = ""  # the Node it is on


@dataclass(frozen=True, slots=True)
class About:
    """The object of an event."""

    kind: str  # Pod or Node
    name: str
    uid: str
    namespace: str = ""

    @property
    def place(self) -> str:
        """Events of what has no namespace stand in `default`."""
        return self.namespace or NODE_NAMESPACE


def node(name: str) -> About:
    """A Node, as kubelets write it in their events: its name is its UID."""
    return About("Node", name, name)


def document(
    about: About, source: Source, reason: str, message: str, when: datetime.datetime, kind: str = "Warning"
) -> dict[str, Any]:
    """The Event; `kind` is Warning or Normal."""
    stamp = when.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(f"{about.kind}/{about.uid}/{reason}".encode()).hexdigest()[:16]
    regarding = {"apiVersion": "v1", "kind": about.kind, "name": about.name, "uid": about.uid}
    if about.namespace:
        regarding["namespace"] = about.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": about.place, "name": f"{about.name[:200]}.{digest}"},
        "involvedObject": regarding,
        "reason": reason,
        "message": message[:MOST_MESSAGE],
        "type": kind,
        "source": {"component": source.component, "host": source.host},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


class Reporter:
    """Writes events; used from one thread. `counts` outlives no restart: the count then begins anew."""

    def __init__(self, api: KubeApi, source: Source) -> None:
        self._api = api
        self._source = source
        self._counts: dict[str, int] = {}

    def say(self, about: About, reason: str, message: str, when: datetime.datetime, kind: str = "Warning") -> str:
        """Why it could not be written."""
        event = document(about, self._source, reason, message, when, kind)
        name = str(event["metadata"]["name"])
        path = f"/api/v1/namespaces/{quote(about.place, safe='')}/events"
        count = self._counts.get(name, 0) + 1
        if len(self._counts) > 1000:
            self._counts.clear()
        self._counts[name] = count
        try:
            try:
                self._api.post(path, event)
            except ApiError as problem:
                if problem.status != 409:
                    raise
                changed = {"message": event["message"], "lastTimestamp": event["lastTimestamp"], "count": count}
                self._api.patch(f"{path}/{quote(name, safe='')}", changed, MERGE_PATCH)
        except ApiError as problem:
            return str(problem)
        return ""
