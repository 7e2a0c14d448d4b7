# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the worker does of what waits: in which order, and not too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    Answer,
    ApiDouble,
    Authority,
)
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import KubeApi
from colocation.common.retry import Backoff
from colocation.device_plugin import evict
from colocation.device_plugin.reclaim import Action, Rung
from colocation.device_plugin.reclaim_view import Holding, PodHolding
from colocation.device_plugin.reclaim_work import Identities, Job, Worker

RESOURCE = "test.com/colocation-memory"


def until(what: str, holds: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


class Site:
    """A worker whose first call of the API hangs until it is let through."""

    def __init__(self, double: ApiDouble, authority: Authority) -> None:
        self.now, self.offered = 0.0, 9
        self.began, self.through = threading.Event(), threading.Event()
        self.answers: list[tuple[str, str, str]] = []
        self.double = double
        self.access = Access(
            "127.0.0.1", double.server_address[1], Material(str(authority.certificate)), token=Material(content="t")
        )
        api = KubeApi(self._reach, timeout=3, backoff=Backoff(tries=1))
        self.worker = Worker(Identities("w1", api, api), self._done, lambda: self.offered, lambda: self.now)

    def _reach(self) -> Access:
        self.began.set()
        self.through.wait(20)
        return self.access

    def _done(self, job: Job, answer: evict.Answer) -> None:
        self.answers.append((job.action.rung.value, job.pod.name, answer.said.value))

    def put(self, name: str, rung: Rung = Rung.EVICT, until: float = 30.0) -> None:
        pod = PodHolding("batch", name, f"uid-{name}", "/none", (Holding("main", ("CM-0-0",)),))
        self.worker.put(Job(Action(rung, pod.uid, 1 << 20, "because"), pod, RESOURCE, until))

    def hang(self) -> None:
        """Have it at work, so that what comes next waits."""
        self.put("first")
        assert self.began.wait(10)

    def go_on(self, answers: int) -> list[tuple[str, str, str]]:
        self.through.set()
        until("all is answered", lambda: len(self.answers) == answers)
        return self.answers


@pytest.fixture
def site(double: ApiDouble, authority: Authority) -> Iterator[Site]:
    made = Site(double, authority)
    yield made
    made.through.set()
    made.worker.stop()


def test_what_waited_too_long_is_not_done(site: Site) -> None:
    site.hang()
    site.put("a")
    site.put("b", until=31.0)
    site.now = 30.0
    assert site.go_on(3) == [("evict", "first", "done"), ("evict", "a", "failed"), ("evict", "b", "done")]


def test_evictions_come_before_squeezes_and_a_pod_waits_once(site: Site) -> None:
    site.hang()
    site.put("a", Rung.SQUEEZE)
    site.put("a")
    site.put("b")
    site.put("a", Rung.KILL)
    site.put("a", Rung.SQUEEZE)
    done = [(rung, name) for rung, name, _said in site.go_on(4)]
    assert done == [("evict", "first"), ("kill", "a"), ("evict", "b"), ("squeeze", "a")]


def test_what_is_offered_is_asked_for_when_the_eviction_is_done(site: Site) -> None:
    site.hang()
    site.put("a")
    site.offered = 4
    site.go_on(2)
    patches = [request.body for request in site.double.asked if request.verb == "PATCH"]
    offered = [body["status"]["allocatable"][RESOURCE] for body in patches if "status" in body]
    assert offered == ["9", "4"]


def test_what_waits_at_the_end_is_not_done(site: Site) -> None:
    site.hang()
    site.put("a")
    ending = threading.Thread(target=site.worker.stop)
    ending.start()
    until("it is told to end", lambda: site.worker._stopping)
    site.through.set()
    ending.join(10)
    assert site.answers == [("evict", "first", "done")]


def test_free_blocks_of_other_nodes_are_forgotten_after_half_a_minute(site: Site) -> None:
    status = {"allocatable": {RESOURCE: "3"}, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = {"items": [{"metadata": {"name": "w2"}, "status": status}]}
    site.double.answers = [Answer(200, nodes), Answer(200, {"items": []})]
    site.through.set()
    site.worker.know((), RESOURCE, rooms=True)
    until("they are seen", lambda: site.worker.rooms)
    site.worker.know((), RESOURCE, rooms=False)
    site.now = 29.9
    assert [room.node for room in site.worker.rooms] == ["w2"]
    site.now = 30.0
    assert site.worker.rooms == ()
