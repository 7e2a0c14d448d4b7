# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender's own metrics."""

from __future__ import annotations

import time
from typing import get_args

from colocation.common.metrics import Registry
from colocation.scheduler.engine import Engine
from colocation.scheduler.score import Judged

PREFIX = "colocation_scheduler_"
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0)


class Counters:
    """What happens is counted when it does; what stands in the engine is read when somebody asks."""

    def __init__(self, registry: Registry) -> None:
        self.requests = registry.counter(PREFIX + "requests_total", "Requests to the extender.", ("verb", "code"))
        self.seconds = registry.histogram(
            PREFIX + "request_seconds", "Time from a whole request to its answer.", BOUNDS, ("verb",)
        )
        self.decisions = registry.counter(
            PREFIX + "decisions_total", "Pods that nodes were scored for.", ("profile", "result")
        )
        self.refused = registry.counter(PREFIX + "nodes_refused_total", "Nodes that the filter refused.", ("profile",))
        self.nodes = registry.gauge(PREFIX + "nodes", "Nodes that are known.")
        self.pods = registry.gauge(PREFIX + "pods", "Pods on nodes that are known.")
        self.in_flight = registry.gauge(PREFIX + "in_flight", "Pods and bookings that count beside what is measured.")
        self.booked = registry.gauge(PREFIX + "bookings", "Favourites whose binding was not seen yet.")
        self.ended = registry.counter(PREFIX + "bookings_ended_total", "How bookings ended.", ("how",))
        self.bound = registry.counter(
            PREFIX + "bound_total", "Pods of our profiles that were bound, and whether we were asked.", ("asked",)
        )
        self.judged = registry.gauge(
            PREFIX + "judged_nodes", "Nodes by what they are judged by.", ("profile", "resource", "by")
        )
        self.bad = registry.counter(PREFIX + "bad_readings_total", "Readings that are no measured value.")
        self.rounds = registry.counter(PREFIX + "rounds_total", "Rounds of measuring.", ("source", "result"))
        self.round_seconds = registry.gauge(PREFIX + "round_seconds", "Time that the last round took.")
        self.round_age = registry.gauge(PREFIX + "round_age_seconds", "Time since the last good round.")
        self.measured = registry.gauge(PREFIX + "measured_nodes", "Nodes with a value in the last good round.")
        self.watching = registry.gauge(PREFIX + "watch_up", "Whether the watch works.", ("kind",))
        self.events = registry.counter(PREFIX + "watch_events_total", "Events of the watch.", ("kind",))
        self.lists = registry.counter(PREFIX + "watch_lists_total", "Lists that were made.", ("kind",))
        self.failures = registry.counter(PREFIX + "watch_failures_total", "Watches that broke.", ("kind",))
        self._began = time.monotonic()

    def read(self, engine: Engine) -> None:
        """Take over what stands in the engine."""
        cluster, rounds = engine.cluster, engine.rounds
        self.nodes.set(len(cluster.nodes))
        self.pods.set(cluster.pods)
        self.in_flight.set(engine.ask(lambda cluster, _now: cluster.in_flight))
        self.booked.set(cluster.booked)
        for how, number in (
            ("kept", cluster.counts.bookings_kept),
            ("elsewhere", cluster.counts.bookings_elsewhere),
            ("expired", cluster.counts.bookings_expired),
        ):
            self.ended.set(number, how=how)
        self.bound.set(cluster.counts.bound_asked, asked="yes")
        self.bound.set(cluster.counts.bound_unasked, asked="no")
        for profile, ranking in cluster.rankings.items():
            found = cluster.judged(profile)
            for resource in ranking.rules.resources:
                for by in get_args(Judged):
                    self.judged.set(found.get((resource, by), 0), profile=profile, resource=resource, by=by)
        self.bad.set(cluster.counts.bad_readings)
        source = engine.config.chosen_source
        self.rounds.set(rounds.good, source=source, result="good")
        self.rounds.set(rounds.failed, source=source, result="failed")
        self.round_seconds.set(rounds.seconds)
        self.round_age.set(time.monotonic() - (rounds.last_good or self._began))
        self.measured.set(rounds.nodes)
        for watch in engine.watches:
            kind, health = watch.kind.name, watch.health
            self.watching.set(health.synced and not health.problem, kind=kind)
            self.events.set(health.events, kind=kind)
            self.lists.set(health.lists, kind=kind)
            self.failures.set(health.failures, kind=kind)
