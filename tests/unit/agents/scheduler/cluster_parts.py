# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Nodes, pods and configurations in few words."""

from __future__ import annotations

import json

from colocation.common.config import load
from colocation.scheduler.cluster import Cluster, Reading
from colocation.scheduler.config import Config
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import NOTHING_SAID, Amount, Pod, Said

GIB = float(1 << 30)
MIB = float(1 << 20)
MEMORY = "mem-real-usage-scheduler"
CPU = "cpu-real-usage-scheduler"
BOTH = "real-usage-scheduler"
OVERSELL = "oversell-scheduler"


def config(text: str = "") -> Config:
    return load(Config, text, "extender.yaml")


def node(name: str, cpu: float = 10.0, memory: float = 100 * GIB) -> Node:
    return Node(name, Amount(cpu, memory), Amount(cpu, memory))


def pod(
    uid: str,
    where: str = "",
    cpu: float | None = 0.1,
    memory: float | None = GIB,
    *,
    scheduler: str = MEMORY,
    owner: str = "d/Deployment/web",
    pinned: bool = False,
    finished: bool = False,
    started: bool = False,
    age: float | None = None,
    limit: Said = NOTHING_SAID,
) -> Pod:
    request = Said(cpu, memory)
    return Pod(uid, f"d/{uid}", scheduler, owner, where, pinned, finished, started, request, limit, age)


def cluster(names: str = "a b c", text: str = "") -> Cluster:
    """Nodes of 10 cores and 100 GiB."""
    made = Cluster(config(text))
    made.nodes_are(node(name) for name in names.split())
    return made


def measure(model: Cluster, now: float, **memory: float) -> None:
    """Shares of memory, and as much of the processor, measured right now."""
    for name, share in memory.items():
        model.measured(name, (Reading(share, now), Reading(share, now)), now)


def best(model: Cluster, uid: str, now: float, names: str = "a b c", scheduler: str = MEMORY) -> str | None:
    ranked = model.prioritize(pod(uid, scheduler=scheduler), names.split(), now)
    assert ranked is not None
    return ranked.favourite


def scores(model: Cluster, now: float, names: str = "a b c", scheduler: str = MEMORY) -> dict[str, int]:
    """As kube-scheduler gets them, for a pod that is not booked."""
    ranked = model.prioritize(pod("", scheduler=scheduler), names.split(), now)
    assert ranked is not None
    return {one["Host"]: one["Score"] for one in json.loads(ranked.text)}
