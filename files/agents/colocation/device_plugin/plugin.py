# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The plugin of one resource: looks around in each round and does what `lifecycle` decides."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.device_plugin import lifecycle, protocol
from colocation.device_plugin.devices import Device, NotReady, Source, keep_held, too_large
from colocation.device_plugin.holders import Ledger
from colocation.device_plugin.lifecycle import Life, Sight, Step
from colocation.device_plugin.server import PluginServer, dial, register

log = Log("device_plugin")


class Metrics:
    """What the plugins count."""

    def __init__(self, registry: Registry) -> None:
        by = ("resource",)
        self.devices = registry.gauge("colocation_devices", "Devices offered to the kubelet.", by)
        self.allocated = registry.gauge("colocation_devices_allocated", "Devices that containers hold.", by)
        self.grants = registry.counter("colocation_allocations_total", "Times that a container was given devices.", by)
        self.granted = registry.counter("colocation_allocated_total", "Devices that containers were given.", by)
        self.registered = registry.gauge("colocation_registered", "1 while the kubelet watches the list.", by)
        self.begun = registry.counter("colocation_incarnations_total", "Times that a plugin began anew.", by)
        self.taken = registry.counter("colocation_registrations_total", "Registrations that the kubelet took.", by)
        self.failed = registry.counter("colocation_registration_failures_total", "Tries that failed.", by)
        self.sent = registry.counter("colocation_lists_total", "New lists of devices.", by)
        self.size = registry.gauge("colocation_list_bytes", "Size of the list of devices on the wire.", by)
        of_devices = (self.devices, self.allocated, self.grants, self.granted, self.sent, self.size)
        self._all = (*of_devices, self.registered, self.begun, self.taken, self.failed)

    def forget(self, resource: str) -> None:
        for metric in self._all:
            metric.forget(resource=resource)


@dataclass(frozen=True, slots=True)
class Rules:
    """How plugins behave, from the configuration."""

    directory: str
    grace: float
    retry: float


@dataclass(frozen=True, slots=True)
class View:
    """What the status shows of a plugin; replaced as a whole in each round."""

    resource: str
    devices: int = 0
    held: int = 0
    watched: bool = False
    state: str = "starting"
    problem: str = ""
    socket: str = ""


class Plugin:
    """One resource; used from one thread, but for `view`."""

    def __init__(self, source: Source, rules: Rules, metrics: Metrics, ledger: Ledger) -> None:
        self._source = self._serving = source  # the one that is wanted, and the one of the list that is out
        self._rules = rules
        self._metrics = metrics
        self._ledger = ledger
        self._life = Life()
        self._server: PluginServer | None = None
        self._devices: tuple[Device, ...] | None = None  # those of _content
        self._from: tuple[object, object] = (None, None)  # what the source had and what was held, when they were taken
        self._refused: str | None = None  # why a list of these is none
        self._content = b""
        self._problem = ""
        self.view = View(source.resource)

    def change(self, source: Source, rules: Rules) -> None:
        """Go on with another source of the same resource: a stream that lives sees only that its list changes. Until
        there is a list of the new one, the old one answers for the devices that the kubelet has."""
        self._source = source
        self._rules = rules

    def tick(self, alive: Callable[[], None]) -> None:
        """Look around and act; an error is this plugin's alone."""
        try:
            refused = self._encode() or ""
            if self._devices is None:
                self._note(refused)
            else:  # also a kubelet that starts anew meanwhile is told the last good list
                self._serving = self._serving if refused else self._source
                self._act(alive, refused)
        except Exception as problem:
            log.debug("this round failed", resource=self._source.resource, error=repr(problem))
            self._note(f"this round failed: {reason(problem)}")
        self._show()

    def stop(self) -> None:
        """End; the kubelet keeps the count of devices for its grace period, no list is sent for that."""
        self._end()
        with contextlib.suppress(OSError):
            if lifecycle.is_ours(os.readlink(self._link), self._stem):
                self._link.unlink()

    @property
    def _stem(self) -> str:
        return lifecycle.stem(self._source.resource)

    @property
    def _link(self) -> Path:
        return Path(self._rules.directory, self._source.link or f"{self._stem}.sock")

    def _encode(self) -> str | None:
        """Have the devices as they are now as a list for the kubelet; or why there is none."""
        held = self._ledger.ids(self._source.resource)
        try:
            offered = self._source.devices(held)
        except NotReady as problem:
            return str(problem)
        if self._from[0] is offered and self._from[1] is held:
            return self._refused  # thousands are not compared in each round
        devices, self._refused = keep_held(offered, held), None
        old = self._devices
        if old is None or (devices is not old and set(devices) != set(old)):  # another order is nothing to send
            content = protocol.encode_devices(devices)
            self._refused = too_large(len(devices), len(content), self._source.larger_unit)
            if self._refused is None:
                self._content, self._devices = content, devices
        self._from = (offered, held)
        return self._refused

    def _act(self, alive: Callable[[], None], problem: str) -> None:
        if self._server is not None:
            self._server.source = self._serving
            if self._server.offer.publish(self._content):
                self._metrics.sent.add(resource=self._source.resource)
        decision = lifecycle.decide(self._life, self._look(), self._rules.grace)
        self._life = decision.life
        if decision.step is Step.BEGIN:
            log.info("beginning", resource=self._source.resource, why=decision.why)
            self._begin(alive)
        elif decision.step is Step.KEEP:
            self._note(problem)

    def _show(self) -> None:
        resource, server = self._source.resource, self._server
        devices = len(self._devices or ())
        watched = server is not None and server.offer.streams > 0
        self._metrics.devices.set(devices, resource=resource)
        held = len(self._ledger.ids(resource))
        self._metrics.allocated.set(held, resource=resource)
        self._metrics.size.set(len(self._content), resource=resource)
        self._metrics.registered.set(int(watched), resource=resource)
        state = lifecycle.decide(self._life, self._look(), self._rules.grace).why
        socket = os.path.basename(server.path) if server else ""
        self.view = View(resource, devices, held, watched, state, self._problem, socket)

    def _note(self, problem: str) -> None:
        """Remember a problem for the status; the log has it once."""
        if problem and problem != self._problem:
            log.error("not working", resource=self._source.resource, why=problem)
        self._problem = problem

    def _begin(self, alive: Callable[[], None]) -> None:
        self._end()
        self._metrics.begun.add(resource=self._source.resource)
        kubelet_socket = os.path.join(self._rules.directory, "kubelet.sock")
        kubelet = file_id(kubelet_socket)
        try:
            self._sweep()
            name = lifecycle.socket_name(self._stem, lifecycle.incarnation(time.time_ns()))
            path = os.path.join(self._rules.directory, name)
            self._server = PluginServer(self._serving, path, self._content, self._granted)
            os.chmod(path, 0o600)
            self._point_link_at(name)
            alive()
            dial(path)
            alive()
            register(kubelet_socket, name, self._serving.resource, self._serving.options)
        except (OSError, RuntimeError, grpc.RpcError) as problem:
            self._fail(problem, kubelet)
        else:
            # The kubelet seen before the call: if another has come since, the next round begins anew.
            self._life = lifecycle.registered(time.monotonic(), kubelet) if kubelet else Life()
            self._metrics.taken.add(resource=self._source.resource)
            self._problem = ""
            log.info("registered with the kubelet", resource=self._source.resource, socket=name)

    def _granted(self, ids: Sequence[str]) -> None:
        resource = self._source.resource
        self._ledger.grant(resource, ids, time.monotonic())
        self._metrics.grants.add(resource=resource)
        self._metrics.granted.add(len(ids), resource=resource)

    def _fail(self, problem: Exception, kubelet: lifecycle.FileId | None) -> None:
        self._end()
        self._life = lifecycle.failed(self._life, time.monotonic(), self._rules.retry, kubelet)
        self._problem = f"The registration with the kubelet failed: {reason(problem)}"
        self._metrics.failed.add(resource=self._source.resource)
        log.warning("registration failed", resource=self._source.resource, why=reason(problem))

    def _end(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(server.path)

    def _look(self) -> Sight:
        kubelet = file_id(os.path.join(self._rules.directory, "kubelet.sock"))
        server = self._server
        there = server is not None and file_id(server.path) is not None
        return Sight(time.monotonic(), kubelet, there, server.offer.streams if server else 0)

    def _point_link_at(self, name: str) -> None:
        scratch = self._link.with_name(f".{self._stem}.link")
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()
        scratch.symlink_to(name)
        scratch.replace(self._link)

    def _sweep(self) -> None:
        """Remove the sockets of incarnations that were killed."""
        for name in os.listdir(self._rules.directory):
            if lifecycle.is_ours(name, self._stem):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._rules.directory, name))


def file_id(path: str) -> lifecycle.FileId | None:
    """What tells this file from another of the same name; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns  # not ctime, which a new label changes too


def reason(problem: Exception) -> str:
    """An error in one line."""
    if isinstance(problem, grpc.Call):
        return f"{problem.code().name}: {problem.details()}"
    return str(problem) or type(problem).__name__
