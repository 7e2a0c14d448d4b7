# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent's side of GPUs: one object that lives as long as the agent, whatever the configuration says.

source = part.configure(config)          # None: no GPUs are on offer
part.refresh(ledger, kubelet)            # each time that holders were looked at
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from colocation.common.kube_api import KubeApi, kubeconfig
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.common.status import Cell, Table
from colocation.device_plugin.config import Config
from colocation.device_plugin.gpu_backend import Backend
from colocation.device_plugin.gpu_cluster import GpuCluster
from colocation.device_plugin.gpu_config import GpuMemory
from colocation.device_plugin.gpu_file_double import FileDouble
from colocation.device_plugin.gpu_nvml import Nvml
from colocation.device_plugin.gpu_source import GpuSource
from colocation.device_plugin.gpu_status import GpuMetrics, tables
from colocation.device_plugin.gpu_watcher import GpuWatcher
from colocation.device_plugin.holders import Held, Ledger, NoCheckpoint, read_checkpoint
from colocation.device_plugin.kubelet_state import CHECKPOINT
from colocation.device_plugin.reclaim_config import Kubernetes

API_SECONDS = 5.0
QUICK_SECONDS = 1.0  # while the kubelet waits for an Allocate it does nothing else
ONE_TRY = Backoff(tries=1)
Wanted = tuple[str, GpuMemory, Kubernetes, str]


class GpuPart:
    """Used from the agent's thread, but for what the status asks."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = GpuMetrics(registry)
        self._wanted: Wanted | None = None
        self._source: GpuSource | None = None
        self._kubelet: object = None

    def configure(self, config: Config) -> GpuSource | None:
        """The source; a new one only where something about it changed, for it remembers whom it served."""
        found = ((name, gpu, config.kubernetes, config.kubelet_dir) for name, gpu in config.gpu.items())
        wanted = next(found, None)
        if wanted != self._wanted:
            self.stop()
            self._wanted = wanted
            self._source = _make(wanted, self._metrics) if wanted else None
            if self._source:
                self._source.begin()
        return self._source

    def refresh(self, ledger: Ledger, kubelet: object) -> None:
        """Tell the source who holds what; `kubelet` is what tells one kubelet from the next."""
        source = self._source
        if source is None:
            return
        source.refresh(ledger.holders(source.resource))
        if kubelet != self._kubelet and source.cluster is not None:
            source.cluster.look_again()
        self._kubelet = kubelet

    def stop(self) -> None:
        source, self._source, self._wanted = self._source, None, None
        if source is not None:
            source.end()

    @property
    def problems(self) -> tuple[str, ...]:
        source = self._source
        if source is None:
            return ()
        own = (source.watcher.problem, source.complaint if source.catalog else "")  # before, the plugin itself has it
        return (*filter(None, own), *(source.cluster.problems if source.cluster else ()))

    @property
    def facts(self) -> tuple[tuple[str, Cell], ...]:
        source = self._source
        if source is None:
            return ()
        look = source.watcher.look
        left_out = ", ".join(look.left_out) if look else ""
        ill = ", ".join(f"{gpu.uuid} ({gpu.ill})" for gpu in (look.gpus if look else ()) if gpu.ill)
        facts: list[tuple[str, Cell]] = [("GPUs are seen by", source.watcher.about)]
        facts += [("GPUs left out", left_out)] if left_out else []
        facts += [("GPUs that are ill", ill)] if ill else []  # no problem of the agent: it can be rolled out anew
        facts += [] if source.cluster else [("annotations of pods", "not read and not written: no kubeconfig")]
        return tuple(facts)

    @property
    def tables(self) -> tuple[Table, ...]:
        source = self._source
        return tables(source.catalog, source.holders) if source is not None and source.catalog else ()


def _make(wanted: Wanted, metrics: GpuMetrics) -> GpuSource:
    resource, settings, kubernetes, kubelet_dir = wanted
    backend: Backend = FileDouble(settings.double_file) if settings.double_file else Nvml()
    watcher = GpuWatcher(backend, settings.mig, settings.poll_seconds, settings.rest_seconds)
    cluster = None
    if kubernetes.kubeconfig:
        find = kubeconfig(kubernetes.kubeconfig)
        slow, quick = (KubeApi(find, seconds, ONE_TRY) for seconds in (API_SECONDS, QUICK_SECONDS))
        node = kubernetes.node or socket.gethostname().lower()  # as the kubelet does
        cluster = GpuCluster(slow, quick, node, resource)
    return GpuSource(resource, settings, metrics, watcher, cluster, recorded(kubelet_dir, resource))


def recorded(kubelet_dir: str, resource: str) -> Callable[[], Iterable[Held]]:
    """A look into the kubelet's checkpoint, which it writes before it asks for the next container. Nothing where it
    can't be read, which makes nobody certain."""
    checkpoint = Path(os.path.join(kubelet_dir, CHECKPOINT))

    def look() -> Iterable[Held]:
        try:
            return read_checkpoint(checkpoint.read_bytes(), (resource,))
        except (OSError, NoCheckpoint):
            return ()

    return look
