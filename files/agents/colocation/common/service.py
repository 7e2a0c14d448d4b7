# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The frame around an agent: signals, reload, watchdog, status page; the agent itself is a `Service`.

One thread works, a tick at a time. Signals are blocked and waited for between ticks, so that nothing ever runs inside
a signal handler and every wait can be ended. An agent with a loop of its own can use the parts without this frame.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from colocation import __version__
from colocation.common import journal, notify, pages, process_metrics
from colocation.common.http_server import HttpServer
from colocation.common.journal import Log
from colocation.common.metrics import Registry
from colocation.common.settings import Settings
from colocation.common.status import Status

SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
log = Log("service")

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class Service(Protocol[C_contra]):
    """What an agent does; all but `status` is called from one thread."""

    def configure(self, config: C_contra) -> None:
        """Take a configuration: the first, or a reloaded one."""

    def tick(self, alive: Callable[[], None]) -> None:
        """Do what is due; call `alive` between steps that may take seconds."""

    def status(self) -> Status:
        """How it is, asked from other threads."""

    def stop(self) -> None:
        """End, and leave nothing behind."""


@dataclass(frozen=True, slots=True)
class Frame(Generic[C]):
    """What runs a service."""

    name: str
    settings: Settings[C]
    service: Service[C]
    registry: Registry
    notifier: notify.Notifier
    address: str
    port: int
    tick_seconds: float = 1.0
    log_level: Callable[[C], str] = lambda _config: "info"


def block_signals() -> None:
    """To be called before any thread starts, for threads inherit what is blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*SIGNALS, signal.SIGALRM))


def wait_for_signal(seconds: float) -> signal.Signals | None:
    """One of ours, or None when the time is over, which an alarm tells.

    `sigtimedwait` would be simpler, but after the process was stopped and goes on (SIGCONT, a thawed cgroup) CPython
    takes whatever stands in its memory for a signal.
    """
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    received = signal.sigwaitinfo((*SIGNALS, signal.SIGALRM)).si_signo
    signal.setitimer(signal.ITIMER_REAL, 0)
    if received == signal.SIGALRM:
        late = signal.sigtimedwait(SIGNALS, 0)  # the alarm comes before a SIGTERM that is there too
        return None if late is None else signal.Signals(late.si_signo)
    signal.sigtimedwait((signal.SIGALRM,), 0)  # one that came in between is no signal of the next wait
    return signal.Signals(received)


def run(frame: Frame[C]) -> None:
    """Run until told to stop."""
    process_metrics.add(frame.registry, frame.name, __version__)
    running = _Running(frame)
    try:
        frame.service.configure(frame.settings.current)
        running.tick()
        summary = running.summary()
        frame.notifier.ready(summary)
        log.info("started", agent=frame.name, version=__version__)
        running.until_told_to_stop(summary)
    finally:
        frame.notifier.stopping()
        running.page.close()
        frame.service.stop()
        log.info("stopped", agent=frame.name)


class _Page(Generic[C]):
    """The status page. Who else holds its address, or that the node has none such, stops no work: it is tried again."""

    def __init__(self, frame: Frame[C], silent: Callable[[], float]) -> None:
        self._frame = frame
        self._silent = silent
        self._server: HttpServer | None = None
        self.problem = ""

    def open(self) -> None:
        """Show the page, if it is not shown yet."""
        if self._server is not None:
            return
        frame = self._frame
        server: HttpServer | None = None
        try:
            respond = pages.answering(lambda: _status(frame), frame.registry, self._silent)
            server = HttpServer(frame.address, frame.port, respond)
            server.start()
        except (OSError, RuntimeError) as problem:  # RuntimeError where no thread can be had
            if server is not None:
                server.close()
            if not self.problem:
                log.error("no status page; it is tried again", address=frame.address, port=frame.port, error=problem)
            why = getattr(problem, "strerror", None) or problem
            self.problem = f"no status page at {frame.address}:{frame.port} ({why})"
            return
        self._server, self.problem = server, ""
        log.info("status page", at=f"http://{server.address}:{server.port}/")

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class _Running(Generic[C]):
    """The loop, and what it counts."""

    def __init__(self, frame: Frame[C]) -> None:
        self.frame = frame
        self.page = _Page(frame, self.silent)
        self._alive_at = time.monotonic()
        self._said = ""  # by the service, of itself
        self.failures = frame.registry.counter("colocation_tick_failures_total", "Rounds of work that failed.")
        self.problems = frame.registry.gauge("colocation_problems", "Problems that the agent's page names.")
        self.reloads = frame.registry.counter("colocation_config_reloads_total", "Reloads.", ("result",))
        self.reloads.add(0, result="taken")
        self.reloads.add(frame.settings.rejected is not None, result="rejected")  # at the start, as in a reload

    def until_told_to_stop(self, summary: str) -> None:
        watchdog = self.frame.notifier.watchdog_seconds
        wait = min(self.frame.tick_seconds, watchdog / 3) if watchdog else self.frame.tick_seconds
        due = time.monotonic() + wait
        while True:
            received = wait_for_signal(max(due - time.monotonic(), 0))
            if received == signal.SIGHUP:
                self.reload()
            elif received is not None:
                log.info("told to stop", signal=received.name)
                return
            due = time.monotonic() + wait
            self.alive()
            self.tick()
            if (now := self.summary()) != summary:
                summary = now
                self.frame.notifier.status(summary)

    def alive(self) -> None:
        """A sign of life: for systemd, and for who asks the page."""
        self._alive_at = time.monotonic()
        self.frame.notifier.watchdog()

    def silent(self) -> float:
        """Seconds since the last one."""
        return time.monotonic() - self._alive_at

    def summary(self) -> str:
        """How it is in a line, for systemd, also where there is no page. Who can't say it is what he was."""
        try:
            status = _status(self.frame)
            self.problems.set(len(status.problems) + bool(self.page.problem))
            self._said = status.summary
        except Exception:
            self.failures.add()
            log.exception("the status could not be told")
        return "; ".join(filter(None, (self._said, self.page.problem)))

    def tick(self) -> None:
        self.page.open()
        try:
            self.frame.service.tick(self.alive)
        except Exception:
            self.failures.add()
            log.exception("this round failed; the next one follows")

    def reload(self) -> None:
        self.frame.notifier.reloading()
        settings = self.frame.settings
        if settings.reload():
            journal.set_level(self.frame.log_level(settings.current))
            self.frame.service.configure(settings.current)
            log.info("configuration reloaded", file=settings.file)
        else:
            log.error("configuration rejected, the old one stays in force", problems=settings.rejected)
        self.reloads.add(result="rejected" if settings.rejected else "taken")
        self.frame.notifier.ready(self.summary())


def _status(frame: Frame[C]) -> Status:
    """The service's, and what the frame knows: a file that was rejected is a problem until it is mended."""
    status = frame.service.status()
    rejected = frame.settings.rejected
    problems = (f"The configuration was rejected, the old one is in force: {rejected}",) if rejected else ()
    facts = (("configuration", frame.settings.file), ("process", os.getpid()))
    return replace(status, problems=(*problems, *status.problems), facts=(*status.facts, *facts))
