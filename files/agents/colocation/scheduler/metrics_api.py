# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Use from metrics.k8s.io, which metrics-server or an adapter answers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from colocation.common.kube_api import ApiError, Document, KubeApi
from colocation.scheduler.cluster import Reading
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount
from colocation.scheduler.quantity import quantity
from colocation.scheduler.sources import Readings, Sampling, SourceError, plausible, share_of

PATH = "/apis/metrics.k8s.io/v1beta1"


class MetricsApiSource:
    """Two lists a round. The times in it are the nodes' own, so they only tell whether a sample is another one."""

    name = "metrics.k8s.io"

    def __init__(self, api: KubeApi, pods: bool) -> None:
        self._api = api
        self._pods = pods

    def sample(self, nodes: Mapping[str, Node]) -> Sampling:
        try:
            found = {name: _readings(item, nodes[name]) for name, item in self._items("nodes") if name in nodes}
            uses = {name: use for name, item in self._items("pods") if (use := _pod_use(item))} if self._pods else {}
        except ApiError as problem:
            hint = "; is metrics-server installed?" if problem.status in (404, 503) else ""
            raise SourceError(f"{problem}{hint}") from None
        missing = len(nodes.keys() - found.keys())
        problems = (f"metrics.k8s.io has nothing of {missing} of {len(nodes)} nodes",) if missing else ()
        return Sampling(found, uses, problems)

    def _items(self, what: str) -> list[tuple[str, Document]]:
        items = self._api.get(f"{PATH}/{what}").get("items")
        found = []
        for item in items if isinstance(items, list) else []:
            metadata = item.get("metadata") if isinstance(item, dict) else None
            if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
                namespace = metadata.get("namespace")
                found.append((f"{namespace}/{metadata['name']}" if namespace else metadata["name"], item))
        return found


def _readings(item: Document, node: Node) -> Readings:
    stamp = _time(item.get("timestamp"))
    first, second = (
        None if use is None else Reading(plausible(share_of(use, node, resource)), stamp)
        for resource, use in enumerate(_usage(item))
    )
    return first, second


def _usage(item: Document) -> tuple[float | None, float | None]:
    usage = item.get("usage")
    known: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    return quantity(known.get("cpu")), quantity(known.get("memory"))


def _pod_use(item: Document) -> Amount | None:
    containers = item.get("containers")
    total = [0.0, 0.0]
    for container in containers if isinstance(containers, list) else []:
        for resource, use in enumerate(_usage(container if isinstance(container, dict) else {})):
            total[resource] += math.nan if use is None else use
    return Amount(*total) if containers else None


def _time(text: object) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return math.nan
