# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A model of a node that knows the truth: pods, a kubelet's device manager, an upper scheduler's annotations.

The kubelet of the model does what `devicemanager` of 1.36 does: one container at a time, first the units of init
containers that ended, then what the plugin prefers, then any; and it tells the plugin nothing but device IDs. The model
writes down who holds what by itself, and never asks the code under test for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from colocation.common.kube_api import ApiError
from colocation.common.metrics import Registry
from colocation.device_plugin.devices import Grant, Refused
from colocation.device_plugin.gpu_config import GpuMemory
from colocation.device_plugin.gpu_grant import by_container, notes, settled
from colocation.device_plugin.gpu_match import Key
from colocation.device_plugin.gpu_pods import ASSIGNED, ASSUME_TIME, UUID, Pod, read_pod
from colocation.device_plugin.gpu_source import GpuSource
from colocation.device_plugin.gpu_status import GpuMetrics
from colocation.device_plugin.gpu_watcher import Look
from colocation.device_plugin.gpus import Catalog, Gpu
from colocation.device_plugin.holders import Held

RESOURCE = "doslab.io/gpu-memory"
UNIT = 4  # MiB, so that nobody takes units for MiB


def gpus(count: int, units: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"GPU-{n:08x}-0000-0000-0000-000000000000", units * UNIT, "made up", n // 2) for n in range(count))


@dataclass
class MadePod:
    """A pod of the model: sizes of its init containers and its containers."""

    number: int
    init: tuple[int, ...]
    sizes: tuple[int, ...]
    annotations: dict[str, str] = field(default_factory=dict)
    phase: str = "Pending"
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the truth: IDs by container
    granted: dict[str, Grant] = field(default_factory=dict)
    bound: bool = True

    @property
    def uid(self) -> str:
        return f"{self.number:08x}-9c1b-4d37-8c55-1f2e3d4c5b6a"

    @property
    def containers(self) -> list[tuple[str, int, bool]]:
        inits = [(f"i{n}", size, True) for n, size in enumerate(self.init)]
        return inits + [(f"c{n}", size, False) for n, size in enumerate(self.sizes)]

    @property
    def total(self) -> int:
        """What a scheduler counts for it."""
        return max([sum(self.sizes), *self.init])

    def document(self) -> dict[str, Any]:
        def made(name: str, size: int) -> dict[str, Any]:
            return {"name": name, "resources": {"limits": {RESOURCE: str(size)}}}

        stamp = f"2024-01-01T00:00:{self.number % 60:02}Z"
        name = f"pod-{self.number}"
        metadata = {"uid": self.uid, "namespace": "n", "name": name, "creationTimestamp": stamp}
        return {
            "metadata": metadata | {"annotations": dict(self.annotations)},
            "spec": {
                "initContainers": [made(name, size) for name, size, init in self.containers if init],
                "containers": [made(name, size) for name, size, init in self.containers if not init],
            },
            "status": {"phase": self.phase},
        }


class ClusterDouble:
    """Stands for GpuCluster: the pods as the API has them, and as a watch that lags has them."""

    def __init__(self) -> None:
        self.now: tuple[Pod, ...] = ()
        self.pods: tuple[Pod, ...] = ()  # of the watch
        self.answers = True
        self.told: list[tuple[str, str, str]] = []
        self.counts: Mapping[str, str] = {}
        self.recorded: Mapping[Key, Sequence[str]] = {}

    @property
    def book(self) -> ClusterDouble:
        return self

    def pods_now(self) -> tuple[Pod, ...]:
        if not self.answers:
            raise ApiError("it does not answer")
        return self.now

    def settled(self, pods: Collection[Pod]) -> tuple[Pod, ...]:
        return settled(pods, self.recorded)

    def record(self, recorded: Mapping[Key, Sequence[str]]) -> None:
        self.recorded = recorded

    def count(self, counts: Mapping[str, str]) -> None:
        self.counts = counts

    def tell(self, about: Any, reason: str, message: str) -> None:
        self.told.append((about.name if about else "", reason, message))


class WatcherDouble:
    """Stands for GpuWatcher: what it would have seen."""

    about = "double"

    def __init__(self, seen: tuple[Gpu, ...]) -> None:
        self.look: Look | None = Look(seen)
        self.problem = ""


class NodeModel:
    """The node, its pods in the order in which they were made, and the plugin."""

    def __init__(self, seen: tuple[Gpu, ...], offered: bool = True, **settings: Any) -> None:
        self.gpus = seen
        self.settings = GpuMemory(unit_mib=UNIT, **settings)
        self.pods: list[MadePod] = []
        self.cluster = ClusterDouble()
        self.made = 0
        self.restart_plugin(offered)

    # What happens.

    def restart_plugin(self, offered: bool = True) -> None:
        self.watcher = WatcherDouble(self.gpus)
        metrics = GpuMetrics(Registry())
        self.source = GpuSource(RESOURCE, self.settings, metrics, self.watcher, self.cluster, self.checkpoint)  # type: ignore[arg-type]
        if offered:
            self.source.devices(frozenset())

    def make(self, init: tuple[int, ...], sizes: tuple[int, ...], wish: str = "", when: int = 0) -> MadePod:
        pod = MadePod(self.made, init, sizes)
        if wish:
            pod.annotations = {UUID: wish, ASSIGNED: "false", ASSUME_TIME: str(when)}
        self.made += 1
        self.pods.append(pod)
        self.know()
        return pod

    def know(self, watch: bool = True) -> None:
        """The API has what is; the watch may lag."""
        read = (read_pod(pod.document(), RESOURCE) for pod in self.pods)
        self.cluster.now = tuple(filter(None, read))
        if watch:
            self.cluster.pods = self.cluster.now

    def free(self) -> list[str]:
        taken = {id for pod in self.pods for ids in pod.held.values() for id in ids}
        catalog = Catalog(self.gpus, UNIT)
        return [device.id for device in catalog.devices(hints=False) if device.healthy and device.id not in taken]

    def admit(self, pod: MadePod) -> str:
        """The kubelet serves a pod's containers; why it refused."""
        reusable: list[str] = []
        for name, size, init in pod.containers:
            must = sorted(reusable)[:size]
            ids = list(must)
            try:
                if len(ids) < size:
                    preferred = self.source.prefer(sorted(self.free() + must), must, size)
                    ids += [id for id in preferred if id not in ids][: size - len(ids)]
                granted = self.source.grant(ids)
            except Refused as refused:
                pod.phase = "Failed"
                pod.held.clear()
                self.know()
                return str(refused)
            reusable = sorted({*reusable, *ids}) if init else [id for id in reusable if id not in ids]
            pod.held[name], pod.granted[name] = tuple(ids), granted
        pod.phase = "Running"
        return ""

    def remove(self, pod: MadePod) -> None:
        self.pods.remove(pod)
        self.know()

    # What is known.

    def checkpoint(self) -> tuple[Held, ...]:
        return tuple(
            Held(RESOURCE, name, ids, pod.uid, "n", f"pod-{pod.number}")
            for pod in self.pods
            for name, ids in pod.held.items()
        )

    def refresh(self) -> None:
        self.source.refresh(self.checkpoint())

    def annotate(self) -> int:
        """What the agent's hand writes; how much that was."""
        held = (((one.uid, one.container), one.ids) for one in self.checkpoint())
        recorded = by_container(Catalog(self.gpus, UNIT), held)
        written = tuple(notes(self.cluster.now, recorded))
        by_uid = {pod.uid: pod for pod in self.pods}
        for note in written:
            by_uid[note.pod.uid].annotations |= note.annotations
        self.know()
        return len(written)

    def gpu_of(self, id: str) -> Gpu:
        """By the name alone."""
        return self.gpus[int(id.partition("-")[0], 16)]
