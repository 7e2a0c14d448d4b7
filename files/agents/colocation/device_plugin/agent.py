# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent: a plugin for each resource of the configuration."""

from __future__ import annotations

from collections.abc import Callable

from colocation import __version__
from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.common.status import Status, Table
from colocation.device_plugin.config import Config
from colocation.device_plugin.devices import MockSource, Source
from colocation.device_plugin.plugin import Metrics, Plugin, Rules

COLUMNS = ("resource", "devices", "watched", "state", "socket")
log = Log("device_plugin")


def sources(config: Config) -> dict[str, Source]:
    """What the configuration offers, by resource."""
    return {resource: MockSource(resource, count) for resource, count in config.mock.items()}


class DevicePluginAgent:
    """Keeps a plugin for each resource."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = Metrics(registry)
        self._plugins: dict[str, Plugin] = {}
        self._directory = ""

    def configure(self, config: Config) -> None:
        """Stop plugins whose resource is no more; the others go on with their stream and send a changed list."""
        rules = Rules(config.kubelet_dir, config.stream_grace_seconds, config.retry_seconds)
        wanted = sources(config)
        moved = self._directory != rules.directory
        plugins = dict(self._plugins)
        for resource in list(plugins):
            if moved or resource not in wanted:
                plugins.pop(resource).stop()
                self._metrics.forget(resource)
        for resource, source in wanted.items():
            if resource in plugins:
                plugins[resource].change(source, rules)
            else:
                plugins[resource] = Plugin(source, rules, self._metrics)
        self._directory = rules.directory
        self._plugins = plugins  # one assignment: the status is read from other threads

    def tick(self, alive: Callable[[], None]) -> None:
        for plugin in self._plugins.values():
            plugin.tick(alive)
            alive()

    def stop(self) -> None:
        for plugin in self._plugins.values():
            plugin.stop()

    def status(self) -> Status:
        views = [plugin.view for plugin in self._plugins.values()]
        watched = sum(view.watched for view in views)
        ill = (view for view in views if view.problem or not view.watched)
        problems = tuple(f"{view.resource}: {view.problem or view.state}" for view in ill)
        rows = tuple((view.resource, view.devices, view.watched, view.state, view.socket) for view in views)
        summary = f"the kubelet watches {watched} of {len(views)} resources"
        facts = (("kubelet's directory", self._directory),)
        return Status("device-plugin", __version__, summary, problems, facts, (Table("Resources", COLUMNS, rows),))
