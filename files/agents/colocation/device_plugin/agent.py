# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent: a plugin for each resource of the configuration, and what they share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from colocation import __version__
from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.common.status import Cell, Status, Table
from colocation.device_plugin.cgroup_tree import PodTree
from colocation.device_plugin.config import Config
from colocation.device_plugin.devices import MockSource, Source
from colocation.device_plugin.gpu_part import GpuPart
from colocation.device_plugin.holders import Ledger
from colocation.device_plugin.kubelet_state import CHECKPOINT, KubeletState, Places
from colocation.device_plugin.memory_metrics import MemoryMetrics, tables
from colocation.device_plugin.memory_picture import pictures
from colocation.device_plugin.memory_source import MemorySource
from colocation.device_plugin.plugin import Metrics, Plugin, Rules, file_id, reason
from colocation.device_plugin.reclaim_guard import Guard

COLUMNS = ("resource", "devices", "held", "watched", "state", "socket")
PENDING_SECONDS = 2.0  # between two looks while a container was given devices and is not known yet
log = Log("device_plugin")


class DevicePluginAgent:
    """Keeps a plugin for each resource."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = Metrics(registry)
        self._memory_metrics = MemoryMetrics(registry)
        self._plugins: dict[str, Plugin] = {}
        self._memory: MemorySource | None = None
        self._guard = Guard(registry)
        self._gpus = GpuPart(registry)
        self._ledger = Ledger()
        self._config = Config()
        self._kubelet: KubeletState | None = None
        self._tree = PodTree("")
        self._looked = self._next_look = 0.0
        self._trouble = ""

    def configure(self, config: Config) -> None:
        """Stop plugins whose resource is no more; the others go on with their stream and send a changed list."""
        rules = Rules(config.kubelet_dir, config.stream_grace_seconds, config.retry_seconds)
        wanted = {source.resource: source for source in self._sources(config)}
        moved = self._config.kubelet_dir != rules.directory
        plugins = dict(self._plugins)
        for resource in list(plugins):
            if moved or resource not in wanted:
                plugins.pop(resource).stop()
                self._metrics.forget(resource)
        for resource, source in wanted.items():
            if resource in plugins:
                plugins[resource].change(source, rules)
            else:
                plugins[resource] = Plugin(source, rules, self._metrics, self._ledger)
        self._watch(config)
        self._guard.configure(config.memory, config.reclaim, config.kubernetes)
        self._config = config
        self._plugins = plugins  # one assignment: the status is read from other threads

    def tick(self, alive: Callable[[], None]) -> None:
        try:
            self._look(now := time.monotonic())
            if self._memory is not None and self._memory.snapshot is not None:
                self._guard.tick(self._memory.snapshot, now, alive)
                self._memory.withdrawn = self._guard.withdrawn
            self._trouble = ""
        except Exception as problem:  # the plugins go on with what is known
            if (trouble := reason(problem)) != self._trouble:
                log.exception("the look at holders and memory failed")
            self._trouble = trouble
        alive()
        for plugin in self._plugins.values():
            plugin.tick(alive)
            alive()

    def stop(self) -> None:
        self._guard.stop()
        self._gpus.stop()
        for plugin in self._plugins.values():
            plugin.stop()
        if self._kubelet is not None:
            self._kubelet.close()

    def status(self) -> Status:
        views = [plugin.view for plugin in self._plugins.values()]
        watched = sum(view.watched for view in views)
        ill = (view for view in views if view.problem or not view.watched)
        problems = [f"{view.resource}: {view.problem or view.state}" for view in ill]
        problems += [f"the look at holders and memory failed: {self._trouble}"] if self._trouble else []
        rows = tuple((view.resource, view.devices, view.held, view.watched, view.state, view.socket) for view in views)
        summary = f"the kubelet watches {watched} of {len(views)} resources"
        facts: list[tuple[str, Cell]] = [("kubelet's directory", self._config.kubelet_dir)]
        shown = [Table("Resources", COLUMNS, rows)]
        if (kubelet := self._kubelet) is not None and kubelet.told:
            facts.append(("who holds what", kubelet.told))
            problems += [f"nobody says who holds what: {kubelet.told}"] if kubelet.blind else []
        if (memory := self._memory) is not None:
            problems += [f"{memory.resource}: {memory.problem}"] if memory.problem else []
            problems += self._guard.problems
            facts += pictures(memory.snapshot) if memory.snapshot else ()
            facts += [("pods' control groups", self._tree.problem or self._tree.kubepods)]
            facts += self._guard.facts
            shown += tables(memory.snapshot) if memory.snapshot else ()
            shown += self._guard.tables
        problems += self._gpus.problems
        facts += self._gpus.facts
        shown += self._gpus.tables
        return Status("device-plugin", __version__, summary, tuple(problems), tuple(facts), tuple(shown))

    def _sources(self, config: Config) -> list[Source]:
        """What the configuration offers. The memory's source goes on: it remembers what it saw."""
        found: list[Source] = [MockSource(resource, count) for resource, count in config.mock.items()]
        memory, self._memory = self._memory, None
        for resource, settings in config.memory.items():
            if memory is not None and memory.resource == resource:
                memory.configure(settings, config.cgroup_root)
                self._memory = memory
            else:
                self._memory = MemorySource(resource, settings, self._memory_metrics, config.cgroup_root)
            found.append(self._memory)
        gpus = self._gpus.configure(config)
        return [*found, gpus] if gpus else found

    def _watch(self, config: Config) -> None:
        """Have readers for the places that the configuration names."""
        places = Places(config.pod_resources_socket, os.path.join(config.kubelet_dir, CHECKPOINT))
        if self._kubelet is None or self._kubelet.places != places:
            if self._kubelet is not None:
                self._kubelet.close()
            self._kubelet = KubeletState(places, self._ledger)
        if self._tree.root != config.cgroup_root:
            self._tree = PodTree(config.cgroup_root)
        self._next_look = 0.0

    def _look(self, now: float) -> None:
        """Learn who holds what and how much memory there is, if it is time or much of it went."""
        memory = self._memory
        fell = memory is not None and memory.look(now)
        pending = self._ledger.granted_since(now - PENDING_SECONDS * 5)
        due = min(self._next_look, self._looked + PENDING_SECONDS) if pending else self._next_look
        if not fell and now < due:
            return
        self._tree.refresh(now)
        kubelet = file_id(os.path.join(self._config.kubelet_dir, "kubelet.sock"))
        known = self._kubelet and self._kubelet.refresh(self._plugins.keys(), self._tree.lives, kubelet, now)
        if known is None and now < due + PENDING_SECONDS:
            return  # a pod that began just now is not known yet, and what it uses would be taken for somebody else's
        self._looked, self._next_look = now, now + self._config.refresh_seconds
        if memory is not None:
            resource = memory.resource
            holders, held = self._ledger.holders(resource), self._ledger.ids(resource)
            memory.refresh(holders, held, self._tree.pods, self._tree.kubepods, now)
        self._gpus.refresh(self._ledger, kubelet)
