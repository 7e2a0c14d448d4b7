# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent: a server that answers, an engine that knows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import get_args

from colocation import __version__
from colocation.common.events import Reporter, Source
from colocation.common.journal import Log
from colocation.common.kube_api import KubeApi
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.common.status import Cell, Status, Table
from colocation.scheduler.answers import Answers, nobody
from colocation.scheduler.config import Config
from colocation.scheduler.counters import Counters
from colocation.scheduler.engine import Engine, access_of
from colocation.scheduler.explain import by_load, explain, to_table
from colocation.scheduler.score import Judged
from colocation.scheduler.server import ExtenderServer
from colocation.scheduler.teller import COMPONENT, Teller, own_pod

SWAP_SECONDS = 30.0  # after a reload the old engine answers until the new one knows the cluster, at most so long
SHOWN_NODES = 20  # on the status page; `explain` shows all
SHOWN_DECISIONS = 10
LOOK_SECONDS = 10.0  # tables of thousands of nodes are not made for every look
log = Log("scheduler")


class ExtenderAgent:
    """Keeps an engine, and through a reload two."""

    def __init__(self, registry: Registry) -> None:
        self._counters = Counters(registry)
        self._answers: Answers | None = None
        self._server: ExtenderServer | None = None
        self._teller: Teller | None = None
        self._next: Engine | None = None
        self._swap_by = 0.0
        self._tables: tuple[Table, ...] = ()
        self._tables_at: float | None = None
        registry.before_rendering(self._count)

    def configure(self, config: Config) -> None:
        """Begin; or make a new engine, which takes over when it knows the cluster."""
        if self._next is not None:  # whatever was to come is not wanted any more
            self._next.stop()
            self._next = None
        if self._answers is not None and self._answers.engine.config == config:
            return
        engine = Engine(config)
        if self._answers is None:
            self._answers = Answers(engine, self._counters)
            self._server = self._listen(config, self._answers)
            self._teller = _teller(config, self._answers)
        else:
            self._next, self._swap_by = engine, time.monotonic() + SWAP_SECONDS
        engine.start()

    def tick(self, alive: Callable[[], None]) -> None:
        answers, server = self._answers, self._server
        if answers is None or server is None:
            return
        if not server.alive():
            raise SystemExit("the extender's server has ended, and so do we: a new process will serve")
        if self._next is not None and (self._next.synced or time.monotonic() > self._swap_by):
            self._swap(answers, self._next)
        answers.engine.ask(lambda cluster, now: cluster.advance(now))
        alive()

    def _swap(self, answers: Answers, engine: Engine) -> None:
        old, answers.engine, self._next = answers.engine, engine, None
        self._tables_at = None
        old.stop()
        if old.config.listen != engine.config.listen and self._server is not None:
            self._server.close()
            self._server = self._listen(engine.config, answers)

    def _listen(self, config: Config, answers: Answers) -> ExtenderServer:
        server = ExtenderServer(config.listen.address, config.listen.port, answers.respond, answers.refused)
        server.start()
        log.info("kube-scheduler is answered", address=f"{server.address}:{server.port}")
        return server

    def stop(self) -> None:
        if self._teller is not None:
            self._teller.stop()
        if self._server is not None:
            self._server.close()
        for engine in (self._next, self._answers.engine if self._answers else None):
            if engine is not None:
                engine.stop()

    def status(self) -> Status:
        answers = self._answers
        if answers is None:
            return Status("scheduler-extender", __version__, "starting", ("not configured yet",))
        engine = answers.engine
        cluster, rounds = engine.cluster, engine.rounds
        summary = (
            f"{engine.fresh} of {len(cluster.nodes)} nodes are measured, {len(answers.decisions)} pods scored lately"
        )
        last = "never" if rounds.last_good is None else f"{time.monotonic() - rounds.last_good:.0f} s ago"
        facts: tuple[tuple[str, Cell], ...] = (
            ("source", engine.source.name),
            ("measured", f"{last}, in {rounds.seconds:.2f} s"),
            ("nodes", len(cluster.nodes)),
            ("pods", cluster.pods),
            ("in flight", engine.ask(lambda cluster, _now: cluster.in_flight)),
            ("booked", cluster.booked),
            *((f"remark {number}", remark) for number, remark in enumerate(rounds.remarks, 1)),
        )
        tables = (_decisions(answers), *self._of_all_nodes(engine))
        return Status("scheduler-extender", __version__, summary, tuple(engine.problems()), facts, tables)

    def _of_all_nodes(self, engine: Engine) -> tuple[Table, ...]:
        now = time.monotonic()
        if self._tables_at is None or now - self._tables_at > LOOK_SECONDS:
            self._tables, self._tables_at = (_profiles(engine), *_nodes(engine)), now
        return self._tables

    def _count(self) -> None:
        if self._answers is not None:
            self._counters.read(self._answers.engine)


def _teller(config: Config, answers: Answers) -> Teller | None:
    """Who writes Events; nobody, where we don't know which pod we are."""
    about = own_pod(os.environ)
    if about is None:
        return None
    api = KubeApi(access_of(config), backoff=Backoff(tries=1))
    teller = Teller(about, Reporter(api, Source(COMPONENT)), lambda: answers.engine)
    teller.start()
    return teller


def _profiles(engine: Engine) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, ranking in engine.cluster.rankings.items():
        profile, found = ranking.rules.profile, engine.cluster.judged(name)
        weights = ", ".join(f"{resource} {weight:g}" for resource, weight in profile.weights.items())
        window = (
            profile.window.kind
            if profile.window.kind == "last"
            else f"{profile.window.kind} {profile.window.seconds:g} s"
        )
        by = [sum(count for (_resource, how), count in found.items() if how == what) for what in get_args(Judged)]
        rows.append((name, weights, window, profile.oversell is not None, *by))
    columns = ("profile", "weights", "window", "oversell", "by use", "by last", "by requests", "full")
    return Table("Profiles, and by what their nodes are judged (each resource counts)", columns, tuple(rows))


def _decisions(answers: Answers) -> Table:
    last = list(answers.decisions)[-SHOWN_DECISIONS:][::-1]
    rows = (
        (
            time.strftime("%H:%M:%S", time.gmtime(one.when)),
            one.pod,
            one.profile,
            one.favourite,
            f"{one.load:.1%}" if one.favourite else "full",
            one.candidates,
        )
        for one in last
    )
    return Table("Last decisions", ("UTC", "pod", "profile", "best", "its load", "candidates"), tuple(rows))


def _nodes(engine: Engine) -> Iterator[Table]:
    """For profiles that were asked for; the lock is held for moments only."""
    asked = {name: ranking for name, ranking in engine.cluster.rankings.items() if ranking.asked}
    for name, ranking in (asked or dict(list(engine.cluster.rankings.items())[:1])).items():
        need = engine.cluster.need_of(nobody(name))
        rows = engine.ask(lambda cluster, _now: ranking.rows(cluster.nodes))  # noqa: B023
        names = by_load(rows, ranking.rules, need)[: -SHOWN_NODES - 1 : -1]
        found = engine.ask(lambda cluster, now: explain(cluster, name, need, now, names))  # noqa: B023
        yield to_table(f"{name}: the {len(found)} fullest of {len(rows)} nodes", found)
