# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent: the relay on its socket, the policy behind it, and rounds that hold the books against what is.

The relay has a thread of its own and starts before anything else is looked at: whatever goes wrong with topology,
configuration or state, the kubelet reaches its runtime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from colocation import __version__
from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.common.status import Cell, Status, Table
from colocation.cri_proxy import kubelet, picture, state, topology
from colocation.cri_proxy.cgroups import Cgroups
from colocation.cri_proxy.config import PIPE, Config, plain_path, variable_name
from colocation.cri_proxy.cpus import show
from colocation.cri_proxy.intercept import Intercept
from colocation.cri_proxy.ledger import name_of
from colocation.cri_proxy.listener import Listener
from colocation.cri_proxy.policy import PlacementPolicy
from colocation.cri_proxy.relay import Relay
from colocation.cri_proxy.runtime import Runtime, RuntimeFailed
from colocation.cri_proxy.state import State
from colocation.cri_proxy.topology import Machine, NoTopology
from colocation.cri_proxy.trouble import Trouble
from colocation.cri_proxy.truth import Round, Truth
from colocation.cri_proxy.wishes import BYTES_VARIABLE

RELAY_SECONDS = 10.0  # a loop that does not turn for so long is stuck
log = Log("cri_proxy")


class Metrics:
    """What the policy counts."""

    def __init__(self, registry: Registry) -> None:
        self.containers = registry.gauge("colocation_cri_containers", "Containers that have a place.", ("kind",))
        self.events = registry.gauge("colocation_cri_policy_events", "What happened since the start.", ("event",))
        self.mended = registry.counter("colocation_cri_mended_total", "Cpusets that were set because they differed.")
        self.wrong = registry.gauge("colocation_cri_wrong_cpusets", "Containers whose cpuset can't be mended.")
        self.rounds = registry.counter("colocation_cri_rounds_total", "Rounds against the runtime.", ("result",))
        self.active = registry.gauge("colocation_cri_policy_active", "1 while containers are placed.")
        self.unsaved = registry.gauge("colocation_cri_state_unsaved", "1 while the state can't be saved.")


class Stuck(SystemExit):
    """The relay's loop does not turn; systemd starts this service anew."""


class CriProxyAgent:
    """What `common.service` runs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._metrics = Metrics(registry)
        self._policy = PlacementPolicy()
        self._intercept = Intercept(registry, Trouble(registry))
        self._relay: Relay | None = None
        self._started = PIPE
        self._config = PIPE
        self._machine: Machine | None = None
        self._fingerprint = ("", "")
        self._truth: Truth | None = None
        self._remembered = State()
        self._resumed = False  # what is remembered is in the books' care
        self._problems: dict[str, str] = {}  # by what they are about
        self._last = Round()
        self._next_round = 0.0
        self._next_balance = 0.0
        self._saved = ""
        self._static = False  # the kubelet pins containers itself
        registry.before_rendering(self._count)

    def configure(self, config: Config) -> None:
        """Begin, or go on by other rules."""
        self._config = config
        if self._relay is None:
            self._start(config)
        if config.is_known and not self._resumed:
            self._resume(config)
        try:
            self._look_at_machine(anew=True)
        except Exception as problem:  # the kubelet's way to its runtime stands above any of this
            log.exception("nothing is placed")
            self._note("topology", f"Nothing is placed: {problem!r}")
        self._intercept.policy = self._policy if config.places else None
        self._note("restart", _needs_restart(self._started, config))
        now = time.monotonic()
        self._next_round = now
        self._next_balance = now + config.placement.rebalance_seconds

    def tick(self, alive: Callable[[], None]) -> None:
        """A round where one is due, a quick look where places changed with others."""
        self._check_relay()
        self._look_at_connections()
        self._look_at_machine(anew=False)
        now = time.monotonic()
        if self._config.placement.rebalance_seconds and now >= self._next_balance:
            self._next_balance = now + self._config.placement.rebalance_seconds
            for key in self._policy.rebalance():
                log.info("moves to an emptier place", container=key)
        due = now >= self._next_round or (self._truth is not None and self._truth.ended())
        stale = self._policy.stale.is_set()
        if due or stale:
            self._policy.stale.clear()
            self._round(due, alive)
        self._save()

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.stop()
        self._save()

    def status(self) -> Status:
        entries = self._policy.entries()
        machine = self._machine
        rows = sorted(
            (name_of(entry.who), show(cpus), show(entry.mems) or None, picture.place_of(entry), entry.milli / 1000,
             picture.kind_of(entry))
            for _key, entry, cpus in entries
        )  # fmt: skip
        active = self._config.places and machine is not None
        summary = f"{len(entries)} containers have their place" if active else "calls are passed on, nothing is placed"
        load = self._relay.load() if self._relay is not None else None
        facts: tuple[tuple[str, Cell], ...] = (
            ("policy", self._config.policy.Active),
            ("socket", plain_path(self._started.listen)),
            ("runtime", plain_path(self._started.runtime)),
            ("connections", load.connections if load is not None else 0),
            ("machine", picture.summary(machine) if machine is not None else "unknown"),
            *self._warnings(),
        )
        tables = (Table(picture.CONTAINERS, picture.COLUMNS, tuple(rows)),)
        status = Status("cri-proxy", __version__, summary, tuple(self._problems.values()), facts, tables)
        return status if machine is None else replace(status, drawing=lambda: picture.drawn(machine, status))

    def _warnings(self) -> Iterator[tuple[str, str]]:
        """What is no illness, and worth knowing."""
        if self._static and self._config.places:
            yield "warning", kubelet.STATIC
        load = self._relay.load() if self._relay is not None else None
        if load is not None and not load.connections:
            yield "warning", "nobody is connected; a kubelet that runs reaches its runtime by another way"
        if self._last.running and not self._last.found and self._config.places:
            where = f"{self._started.cgroup_dir} (cgroup_dir)"
            yield "warning", f"no container's cgroup was found in {where}, so nothing is mended"
        if self._config.ignored:
            yield "keys without a meaning here", ", ".join(self._config.ignored)
        for number, note in enumerate(self._machine.notes if self._machine is not None else (), 1):
            yield f"note {number}", note

    def _start(self, config: Config) -> None:
        """The relay first: nothing else may keep the kubelet from its runtime."""
        self._started = config
        path = plain_path(config.runtime)
        relay = Relay(Listener(plain_path(config.listen)), path, self._intercept, self._registry)
        self._intercept.policy = self._policy if config.places else None
        relay.start()
        self._relay = relay
        try:
            self._remembered, problem = state.load(config.state_dir)
            if problem:
                log.warning("no state", why=problem)
        except Exception:
            log.exception("no state")
        self._truth = Truth(self._policy, Runtime(path), Cgroups(config.cgroup_dir), self._remembered)

    def _resume(self, config: Config) -> None:
        """Go on where the last one ended, once there is a configuration: until then nothing is freed or forgotten."""
        self._resumed = True
        self._policy.free(self._remembered.freed if config.places else self._remembered.all_freed())

    def _look_at_connections(self) -> None:
        """Tell of those that were made while nothing was placed; nobody looks into them as long as they last."""
        plain = self._relay.load().plain if self._relay is not None and self._config.places else 0
        text = f"Calls are only passed on over connections from when nothing was placed ({plain}): restart this service"
        self._note("connections", text if plain else "")

    def _look_at_machine(self, anew: bool) -> None:
        """Read the topology again when CPUs came or went."""
        files = topology.Folder(Path(self._config.sysfs_root))
        try:
            fingerprint = topology.fingerprint(files)
            if fingerprint == self._fingerprint and not anew:
                return
            self._machine = topology.read(files, self._config.placement.ccx)
            self._fingerprint = fingerprint
            self._note("topology", "")
        except NoTopology as problem:
            if not anew and "topology" in self._problems:
                return
            self._machine = None
            self._fingerprint = ("", "")  # or the machine would not be read when it is as before
            self._note("topology", f"Nothing is placed: {problem}")
            log.error("the machine can't be described, calls are only passed on", why=problem)
        self._policy.configure(self._config, self._machine)
        if self._truth is not None:
            self._truth.reconsider()  # who was not ours to place may be now

    def _round(self, whole: bool, alive: Callable[[], None]) -> None:
        self._next_round = time.monotonic() + self._config.placement.check_seconds if whole else self._next_round
        static = kubelet.cpu_manager_is_static(self._config.kubelet_dir)
        if static and not self._static:
            log.warning(kubelet.STATIC)
        self._static = static
        if static or self._truth is None:
            return
        try:
            found = self._truth.round(alive) if whole else self._truth.mend(alive)
        except RuntimeFailed as problem:
            self._metrics.rounds.add(result="failed")
            self._note("runtime", f"The runtime's containers are unknown: {problem}")
            return
        self._metrics.rounds.add(result="done")
        self._metrics.mended.add(found.mended)
        self._note("runtime", "")
        self._note("cpusets", "; ".join(found.wrong[:5]))
        self._last = found if whole else replace(self._last, wrong=found.wrong)

    def _check_relay(self) -> None:
        if self._relay is not None and not self._relay.responds(RELAY_SECONDS):
            log.error("the relay's loop is stuck; this process ends to be started anew")
            self._relay = None  # there is nobody to let calls end, and the kubelet waits for its runtime
            raise Stuck(1)

    def _save(self) -> None:
        variables = (variable_name(self._config.blocks.resource), BYTES_VARIABLE)
        content = state.encode(self._policy.records(), self._policy.to_free(), variables)
        if not self._resumed or (content == self._saved and state.is_saved(self._started.state_dir)):
            return
        try:
            state.save(self._started.state_dir, content)
        except OSError as problem:
            if "state" not in self._problems:
                log.warning("the state can't be saved", folder=self._started.state_dir, why=problem)
            self._note("state", f"The state can't be saved in {self._started.state_dir}: {problem.strerror}")
            return
        self._saved = content
        self._note("state", "")

    def _note(self, about: str, problem: str) -> None:
        """Add a problem, or take it back; one assignment, for the status is read from other threads."""
        problems = {key: text for key, text in self._problems.items() if key != about}
        self._problems = {**problems, about: problem} if problem else problems

    def _count(self) -> None:
        kinds = [picture.kind_of(entry) for _key, entry, _cpus in self._policy.entries()]
        for kind in picture.KINDS:
            self._metrics.containers.set(kinds.count(kind), kind=kind)
        counts = self._policy.counts
        for name in counts.__slots__:
            self._metrics.events.set(getattr(counts, name), event=name)
        self._metrics.wrong.set(len(self._last.wrong))
        self._metrics.active.set(self._config.places and self._machine is not None)
        self._metrics.unsaved.set("state" in self._problems)


def _needs_restart(started: Config, config: Config) -> str:
    """What of a reloaded configuration does not come true by a reload."""
    fixed = ("listen", "runtime", "state_dir", "cgroup_dir", "status")
    changed = [name for name in fixed if getattr(started, name) != getattr(config, name)]
    return f"A restart of this service is needed for: {', '.join(changed)}" if changed else ""
