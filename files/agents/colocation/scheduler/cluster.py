# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The model of the cluster: nodes, what was measured, pods that are placed, and what we expect to be placed.

Everything that happens is told to it with the time (seconds of a clock that never goes back), and every question is
answered from memory. It knows no sockets, threads or clocks; whoever shares it between threads locks it.

A booking holds our favourite's room until the watch shows the binding, because a burst is faster than the watch; one
that never shows ends by itself. A pod is counted once: its booking ends when the pod itself is seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from colocation.scheduler.config import Config, Profile
from colocation.scheduler.learned import Learned
from colocation.scheduler.node_load import BOTH, RESOURCES, NodeLoad
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount, Expectation, Pod
from colocation.scheduler.quantity import quantity
from colocation.scheduler.ranking import Need, Ranked, Ranking
from colocation.scheduler.score import Judged, Rules, judged, rules_of
from colocation.scheduler.series import MOST, SLOPE_SECONDS, View


@dataclass(frozen=True, slots=True)
class Reading:
    """One resource of one node as a source tells it."""

    share: float  # of the capacity
    stamp: float  # of the sample, by the source's clock: only compared with that of the last reading
    age: float = 0.0  # seconds that the source itself says the sample is old


@dataclass(slots=True)
class _Placed:
    """A pod on a node."""

    key: str
    owner: str
    node: str
    request: Amount
    use: Amount
    started: bool
    until: float | None  # in flight until then; None: not in flight


@dataclass(slots=True)
class _Booking:
    node: str
    request: Amount
    use: Amount
    until: float


@dataclass(slots=True)
class Counts:
    """What happened since the start."""

    bad_readings: int = 0
    bookings_kept: int = 0  # the pod came where we had booked
    bookings_elsewhere: int = 0  # it came to another node
    bookings_expired: int = 0
    bound_asked: int = 0  # pods of our profiles that were bound, and we had scored nodes for them
    bound_unasked: int = 0  # and we had not


ASKED = 150_000  # pods that are remembered as scored until they are bound: all of the largest cluster; 30 MB


class Cluster:
    """See above."""

    def __init__(self, config: Config) -> None:
        flight = config.in_flight
        unknown = Amount(*(quantity(text) or 0.0 for text in (flight.unknown.cpu, flight.unknown.memory)))
        self.expectation = Expectation(flight.estimate, unknown)
        self.memory_resources = {name: quantity(text) or 0.0 for name, text in flight.memory_resources.items()}
        self.counts = Counts()
        self.learned = Learned() if flight.estimate == "learned" else None
        self.nodes: dict[str, NodeLoad] = {}
        self._flight = flight
        self._best_only = config.answer == "best"
        self._stale_seconds = config.stale_seconds
        self._views = tuple(dict.fromkeys(_view(profile) for profile in config.profiles.values()))
        self._keep = max([SLOPE_SECONDS, *(view.seconds for view in self._views)])
        self._stamps: dict[tuple[str, int], float] = {}
        self._pods: dict[str, _Placed] = {}
        self._on_node: dict[str, set[str]] = {}
        self._bookings: dict[str, _Booking] = {}
        self._asked: dict[str, None] = {}  # pods that were scored and not seen bound yet, in their order
        self._due: list[tuple[float, str]] = []  # times at which a pod or booking is to be looked at
        self.rankings = {
            name: Ranking(rules_of(profile, self._views.index(_view(profile))))
            for name, profile in config.profiles.items()
        }
        weighted = {resource for ranking in self.rankings.values() for resource in ranking.rules.weighted}
        self.weighted = tuple(sorted(weighted))  # resources that any profile looks at

    # nodes

    def node_is(self, node: Node) -> None:
        """A node came, or changed."""
        known = self.nodes.get(node.name)
        if known is not None:
            if known.node != node:
                known.resize(node, self._views)
                self._touch(node.name)
            return
        fresh = self.nodes[node.name] = NodeLoad(node, len(self._views))
        for uid in self._on_node.get(node.name, ()):
            _board(fresh, self._pods[uid])
        for booking in self._bookings.values():
            if booking.node == node.name:
                _board(fresh, booking)
        self._touch(node.name)

    def node_gone(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            for resource in BOTH:
                self._stamps.pop((name, resource), None)
            self._touch(name)

    def nodes_are(self, nodes: Iterable[Node]) -> None:
        """All nodes there are."""
        names = set()
        for node in nodes:
            names.add(node.name)
            self.node_is(node)
        for name in self.nodes.keys() - names:
            self.node_gone(name)

    # pods

    def pod_is(self, pod: Pod, now: float) -> None:
        """A pod came, or changed. One with an age was bound so long ago."""
        if pod.finished or not pod.node:
            self.pod_gone(pod.uid)
            return
        known = self._pods.get(pod.uid)
        request = self.expectation.request(pod)
        if known is not None and (known.node, known.request) == (pod.node, request):
            self._starts(pod.uid, known, pod.started, now)
            return
        if known is not None:  # resized where it runs: what it was in flight for it is no more
            self.pod_gone(pod.uid)
        booking = self._release(pod.uid)
        if booking is not None:
            self.counts.bookings_kept += booking.node == pod.node
            self.counts.bookings_elsewhere += booking.node != pod.node
        if known is None and pod.age is None and not pod.pinned and pod.scheduler in self.rankings:
            asked = pod.uid in self._asked
            self.counts.bound_asked += asked
            self.counts.bound_unasked += not asked
        self._asked.pop(pod.uid, None)
        learned = self.learned.use(pod.owner) if self.learned else None
        until = None if known is not None else self._hold(pod, now)
        placed = _Placed(pod.key, pod.owner, pod.node, request, self.expectation.use(pod, learned), pod.started, until)
        self._pods[pod.uid] = placed
        self._on_node.setdefault(pod.node, set()).add(pod.uid)
        if until is not None:
            heapq.heappush(self._due, (until, pod.uid))
        if node := self.nodes.get(pod.node):
            _board(node, placed)
        self._touch(pod.node)

    def pod_gone(self, uid: str) -> None:
        placed = self._pods.pop(uid, None)
        if placed is None:
            return
        there = self._on_node[placed.node]
        there.discard(uid)
        if not there:
            del self._on_node[placed.node]
        if node := self.nodes.get(placed.node):
            node.request(placed.request, -1)
            if placed.until is not None:
                node.vanish(placed.use)
        self._touch(placed.node)

    def pods_are(self, pods: Iterable[Pod], now: float) -> None:
        """All pods there are."""
        seen = set()
        for pod in pods:
            seen.add(pod.uid)
            self.pod_is(pod, now)
        for uid in self._pods.keys() - seen:
            self.pod_gone(uid)

    def _hold(self, pod: Pod, now: float) -> float | None:
        if not self._flight.enabled or pod.pinned:
            return None  # a daemon's new pod takes the place of its old one, which is measured
        wait = self._flight.hold_seconds + (0.0 if pod.started else self._flight.start_seconds)
        until = now - (pod.age or 0.0) + wait
        return until if until > now else None

    def _starts(self, uid: str, placed: _Placed, started: bool, now: float) -> None:
        if started and not placed.started:
            placed.started = True
            if placed.until is not None:
                placed.until = now + self._flight.hold_seconds
                heapq.heappush(self._due, (placed.until, uid))

    # what was measured

    def measured(self, name: str, readings: Sequence[Reading | None], now: float) -> None:
        """A node's readings, for each resource. A sample's time by our clock is when its stamp was first seen, so that
        nobody's clock needs to be right."""
        node = self.nodes.get(name)
        if node is None:
            return
        changed = False
        for resource, reading in zip(BOTH, readings, strict=True):
            if reading is None or self._stamps.get((name, resource)) == reading.stamp:
                continue
            time = now - max(reading.age, 0.0)
            if node.sample(resource, time, reading.share, self._views, self._keep):
                self._stamps[name, resource] = reading.stamp
                node.fresh[resource] = now - time <= self._stale_seconds
                changed = True
            elif not 0 <= reading.share <= MOST:  # also what is no number
                self.counts.bad_readings += 1
        if changed:
            self._touch(name)

    def pods_measured(self, uses: Mapping[str, Amount]) -> None:
        """Use of pods by namespace/name; what runs long enough teaches what its like will use."""
        if self.learned is None:
            return
        settled = (pod for pod in self._pods.values() if pod.started and pod.until is None and pod.key in uses)
        self.learned.learn((pod.owner, uses[pod.key]) for pod in settled)

    def refresh(self) -> None:
        """Work out anew what has changed, outside of a request."""
        for ranking in self.rankings.values():
            if ranking.asked:
                ranking.refresh(self.nodes)

    # time

    def advance(self, now: float) -> None:
        """Let end what is over by now: samples, holds and bookings."""
        self._expire(now)
        for name, node in self.nodes.items():
            for resource in BOTH:
                time = node.sampled[resource]
                if node.fresh[resource] and time is not None and now - time > self._stale_seconds:
                    node.fresh[resource] = False
                    self._touch(name)

    def _expire(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            dummy, uid = heapq.heappop(self._due)
            booking, placed = self._bookings.get(uid), self._pods.get(uid)
            if booking is not None and booking.until <= now:
                self._release(uid)
                self.counts.bookings_expired += 1
            if placed is not None and placed.until is not None and placed.until <= now:
                placed.until = None
                if node := self.nodes.get(placed.node):
                    node.land(placed.use)
                self._touch(placed.node)

    # questions

    def need_of(self, pod: Pod) -> Need:
        """What kind of pod it is."""
        learned = self.learned.use(pod.owner) if self.learned else None
        return Need(self.expectation.use(pod, learned), self.expectation.request(pod))

    def prioritize(self, pod: Pod, names: Sequence[str], now: float) -> Ranked | None:
        """Score nodes for a pod and book the best; None where no profile is for it."""
        ranking = self.rankings.get(pod.scheduler)
        if ranking is None:
            return None
        self._expire(now)
        self._release(pod.uid)
        need = self.need_of(pod)
        ranked = ranking.rank(names, need, pod.uid or pod.key, self.nodes, self._best_only)
        self._answered(pod, ranked.favourite, need, now)
        return ranked

    def filter(self, pod: Pod, names: Sequence[str], now: float) -> dict[str, str]:
        """Why nodes can't be offered, by their names; only what was measured lately refuses a node. If a single one is
        left it is booked, for kube-scheduler takes it without asking for scores."""
        ranking = self.rankings.get(pod.scheduler)
        if ranking is None or pod.pinned:
            return {}
        self._expire(now)
        self._release(pod.uid)
        need = self.need_of(pod)
        refused = self._refused(ranking.rules, need.use, names)
        left = [name for name in names if name not in refused]
        if len(left) == 1:
            self._answered(pod, left[0] if left[0] in self.nodes else None, need, now)
        return refused

    def _refused(self, rules: Rules, use: Amount, names: Sequence[str]) -> dict[str, str]:
        limits = list(zip(BOTH, (rules.profile.filter.cpu, rules.profile.filter.memory), strict=True))
        refused: dict[str, str] = {}
        for resource, most in limits:
            if most is None:
                continue
            for name in names:
                node = self.nodes.get(name)
                if node is None or not node.fresh[resource] or name in refused:
                    continue
                expected = node.expected(rules.view, resource, rules.profile.climb_seconds)
                capacity = node.node.capacity[resource]
                if expected is not None and expected + use[resource] > most * capacity:
                    share = (expected + use[resource]) / capacity if capacity else 1.0
                    refused[name] = f"{RESOURCES[resource]} would be used to {share:.0%}, more than {most:.0%}"
        return refused

    def without(self, uid: str) -> dict[str, NodeLoad]:
        """The node that a pod is booked or placed on, by its name, as it is without the pod; empty without one."""
        own = self._bookings.get(uid) or self._pods.get(uid)
        node = self.nodes.get(own.node) if own else None
        if own is None or node is None:
            return {}
        return {own.node: node.without(own.request, None if own.until is None else own.use)}

    def judged(self, profile: str) -> dict[tuple[str, Judged], int]:
        """How many nodes are judged by what, for each weighted resource. Pages ask this without the lock, which is for
        requests: so it goes over a copy, which Python makes at once."""
        found: dict[tuple[str, Judged], int] = {}
        rules, nodes = self.rankings[profile].rules, list(self.nodes.values())
        for resource in rules.weighted:
            for node in nodes:
                key = (RESOURCES[resource], judged(node, rules, resource))
                found[key] = found.get(key, 0) + 1
        return found

    @property
    def pods(self) -> int:
        return len(self._pods)

    @property
    def booked(self) -> int:
        return len(self._bookings)

    @property
    def in_flight(self) -> int:
        return sum(node.in_flight for node in self.nodes.values())

    def _answered(self, pod: Pod, name: str | None, need: Need, now: float) -> None:
        """We were asked for a pod, and it will probably come to that node: book it."""
        uid = pod.uid
        self._asked[uid] = None
        if len(self._asked) > ASKED:
            del self._asked[next(iter(self._asked))]
        if name is None or not self._flight.enabled or not uid or uid in self._pods:
            return
        booking = _Booking(name, need.request, need.use, now + self._flight.booking_seconds)
        self._bookings[uid] = booking
        heapq.heappush(self._due, (booking.until, uid))
        if node := self.nodes.get(name):
            _board(node, booking)
        self._touch(name)

    def _release(self, uid: str) -> _Booking | None:
        booking = self._bookings.pop(uid, None)
        if booking is not None:
            if node := self.nodes.get(booking.node):
                node.request(booking.request, -1)
                node.vanish(booking.use)
            self._touch(booking.node)
        return booking

    def _touch(self, name: str) -> None:
        for ranking in self.rankings.values():
            ranking.touch(name)


def _board(node: NodeLoad, what: _Placed | _Booking) -> None:
    node.request(what.request, 1)
    if what.until is not None:
        node.take_off(what.use)


def _view(profile: Profile) -> View:
    window = profile.window
    if window.kind == "last":
        return View("last")
    return View(window.kind, window.seconds, window.percentile if window.kind == "percentile" else 0.0)
