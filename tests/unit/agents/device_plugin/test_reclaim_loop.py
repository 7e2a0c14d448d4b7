# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The watcher and the worker on a made node: files that look like the kernel's, and a double of the API server."""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    Answer,
    ApiDouble,
    Authority,
)
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import KubeApi
from colocation.common.metrics import Registry
from colocation.common.retry import Backoff
from colocation.device_plugin.reclaim_config import Reclaim
from colocation.device_plugin.reclaim_loop import Fall, Reclaimer, read_meminfo
from colocation.device_plugin.reclaim_metrics import ReclaimMetrics
from colocation.device_plugin.reclaim_view import Holding, PodHolding, Snapshot
from colocation.device_plugin.reclaim_work import Identities

MIB = 1 << 20
TOTAL = 10_000 * MIB  # so the soft watermark is 500 MiB, the hard one 300
UID = "0f31a2b4-1111-4222-8333-44445555aaa{}"


def until(what: str, holds: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


class NodeDouble:
    """Files that stand for a node's memory and its pods' cgroups."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.meminfo = place / "meminfo"
        self.pods: list[PodHolding] = []
        self.set(available=5000)

    def set(self, available: int, free: int = 5000) -> None:
        scratch = self.place / "meminfo.new"
        scratch.write_text(
            f"MemTotal: {TOTAL >> 10} kB\nMemFree: {free << 10} kB\nMemAvailable: {available << 10} kB\n"
        )
        scratch.replace(self.meminfo)

    def add(self, use: int, blocks: int = 1) -> Path:
        number = len(self.pods)
        uid = UID.format(number)
        directory = self.place / "kubepods" / f"pod{uid}"
        directory.mkdir(parents=True)
        (directory / "memory.stat").write_text(f"inactive_anon {use * MIB}\ninactive_file {100 * MIB}\n")
        (directory / "cgroup.kill").touch()
        (directory / "memory.reclaim").touch()
        held = Holding("main", tuple(f"CM-0-{number}{n}" for n in range(blocks)))
        self.pods.append(PodHolding("batch", f"job-{number}", uid, str(directory), (held,)))
        return directory

    def snapshot(self, target: int | None = None) -> Snapshot:
        held = sum(len(pod.blocks) for pod in self.pods)
        wanted = held if target is None else target
        return Snapshot("test.com/cm", 512 * MIB, wanted, wanted, held, tuple(self.pods))


@pytest.fixture
def node(tmp_path: Path) -> NodeDouble:
    return NodeDouble(tmp_path)


Start = Callable[..., Reclaimer]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def start(node: NodeDouble, registry: Registry) -> Iterator[Start]:
    started: list[Reclaimer] = []

    def begin(api: KubeApi | None = None, clock: Callable[[], float] = time.monotonic, **config: object) -> Reclaimer:
        reclaimer = Reclaimer(
            Reclaim(**config),  # type: ignore[arg-type]
            Identities("worker1", api),
            ReclaimMetrics(registry),
            str(node.meminfo),
            str(node.place / "no-pressure"),
            clock,
        )
        started.append(reclaimer)
        return reclaimer

    yield begin
    for reclaimer in started:
        reclaimer.stop()


def asked(double: ApiDouble) -> list[tuple[str, str]]:
    return [(request.verb, request.path.rpartition("/")[2]) for request in double.asked if request.verb != "GET"]


def test_below_the_soft_watermark_the_offer_shrinks_and_then_a_pod_is_evicted(
    node: NodeDouble, api: KubeApi, double: ApiDouble, start: Start, registry: Registry
) -> None:
    node.add(use=300, blocks=2)
    node.add(use=400, blocks=1)
    node.set(available=400)
    reclaimer = start(api)
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("two events", lambda: asked(double).count(("POST", "events")) == 2)
    assert asked(double)[:2] == [("PATCH", "status"), ("POST", "eviction")]
    patched = next(request for request in double.asked if request.verb == "PATCH")
    assert patched.body == {"status": {"allocatable": {"test.com/cm": "2"}}}
    assert "job-1" in next(request.path for request in double.asked if request.path.endswith("eviction"))
    assert reclaimer.withdrawn == {"CM-0-10"}
    until("it is counted", lambda: 'actions_total{rung="evict",result="done"} 1' in registry.render())
    assert reclaimer.table.rows[0][1:5] == ("batch/job-1", "evict", "400 MiB", "done")
    assert (node.place / "kubepods" / f"pod{UID.format(1)}" / "cgroup.kill").read_text() == ""


def test_below_the_hard_watermark_pods_are_killed_at_once_also_without_an_api(node: NodeDouble, start: Start) -> None:
    killed = node.add(use=300) / "cgroup.kill"
    spared = node.add(use=100) / "cgroup.kill"
    unreachable = Access("127.0.0.1", 1, Material(), token=Material(content="t"))
    reclaimer = start(KubeApi(lambda: unreachable, timeout=3, backoff=Backoff(tries=1)))
    node.set(available=290)  # before the first look: a fall in between would be a rate at which both have to go
    began = time.monotonic()
    reclaimer.tick(began, node.snapshot())
    until("it is killed", lambda: killed.read_text() == "1")
    assert time.monotonic() - began < 6, "sooner than at a check; how soon is ./bench reclaim's business"
    assert spared.read_text() == ""
    until("the eviction fails", lambda: any(row[4] == "failed" for row in reclaimer.table.rows))
    assert reclaimer.problems == ()


def test_a_refused_eviction_lets_the_next_pod_be_chosen(
    node: NodeDouble, api: KubeApi, double: ApiDouble, start: Start
) -> None:
    node.add(use=300)
    node.add(use=200)
    node.set(available=400)
    refusal = Answer(429, {"message": "Cannot evict pod as it would violate the pod's disruption budget."})
    double.answers = [Answer(200, {}), refusal, Answer(200, {})]
    reclaimer = start(api, check_seconds=1.0)
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("the other is evicted", lambda: any(row[1:5:3] == ("batch/job-1", "done") for row in reclaimer.table.rows))
    until("both were told of", lambda: asked(double).count(("POST", "events")) == 4)
    reasons = [request.body["reason"] for request in double.asked if request.path.endswith("/events")]
    assert reasons == ["ColocationEvictionRefused"] * 2 + ["ColocationEvicted"] * 2
    assert reclaimer.withdrawn == {"CM-0-10"}


def test_more_blocks_held_than_there_are_is_mended_at_the_second_check(
    node: NodeDouble, api: KubeApi, double: ApiDouble, start: Start
) -> None:
    node.add(use=0)
    node.add(use=0)
    reclaimer = start(api, check_seconds=1.0)
    began = time.monotonic()
    reclaimer.tick(began, node.snapshot(target=1))
    until("it is evicted", lambda: ("POST", "eviction") in asked(double))
    assert time.monotonic() - began >= 1.0
    assert asked(double).count(("POST", "eviction")) == 1


def test_a_pod_that_went_gives_its_blocks_back_before_the_next_snapshot(
    node: NodeDouble, api: KubeApi, double: ApiDouble, start: Start, registry: Registry
) -> None:
    evicted = node.add(use=300)
    node.add(use=200)
    reclaimer = start(api, check_seconds=1.0, cooldown_seconds=1.0)
    reclaimer.tick(time.monotonic(), node.snapshot(target=1))
    until("one is evicted", lambda: ("POST", "eviction") in asked(double))
    calm = re.compile(r'rounds_total{level="calm"} (\d+)')
    before = sum(map(int, calm.findall(registry.render())))
    shutil.rmtree(evicted)
    until("three checks", lambda: sum(map(int, calm.findall(registry.render()))) >= before + 3)
    assert asked(double).count(("POST", "eviction")) == 1


def test_evictions_that_waited_for_the_api_are_not_done_when_it_is_back(
    node: NodeDouble, double: ApiDouble, authority: Authority, start: Start
) -> None:
    for _pod in range(5):
        node.add(use=30)
    back, passed = threading.Event(), [0.0]
    ca, port = Material(str(authority.certificate)), double.server_address[1]

    def hanging() -> Access:
        back.wait(20)
        return Access("127.0.0.1", port, ca, token=Material(content="t"))

    api = KubeApi(hanging, timeout=3, backoff=Backoff(tries=1))
    reclaimer = start(api, clock=lambda: time.monotonic() + passed[0])
    node.set(available=310)
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("all are told to go", lambda: len(reclaimer.withdrawn) == 5)
    node.set(available=5000)
    passed[0] = 30.0
    back.set()
    until("they are answered", lambda: len(reclaimer.table.rows) == 5)
    assert [row[4] for row in reclaimer.table.rows].count("failed") >= 4
    assert asked(double).count(("POST", "eviction")) <= 1, "only one that was begun"
    until("their blocks are on offer again", lambda: len(reclaimer.withdrawn) <= 1)


def test_a_dry_run_only_says_what_it_would_do(
    node: NodeDouble,
    api: KubeApi,
    double: ApiDouble,
    start: Start,
    registry: Registry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    killed = node.add(use=300) / "cgroup.kill"
    node.set(available=100)
    caplog.set_level(logging.INFO)
    reclaimer = start(api, dry_run=True)
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("it says so", lambda: "would take memory back" in caplog.text)
    until("it looks five times", lambda: 'rounds_total{level="hard"} 5' in registry.render())
    assert caplog.text.count("would take memory back") == 1
    assert (killed.read_text(), asked(double), reclaimer.withdrawn) == ("", [], frozenset())
    assert reclaimer.table.rows[0][2:5] == ("kill", "300 MiB", "dry run")


def test_memory_that_can_not_be_read_is_a_problem_until_it_can(node: NodeDouble, start: Start) -> None:
    killed = node.add(use=300) / "cgroup.kill"
    node.meminfo.unlink()
    reclaimer = start()
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("it says so", lambda: reclaimer.problems)
    assert "meminfo" in reclaimer.problems[0]
    node.set(available=100)
    until("it goes on", lambda: killed.read_text() == "1")
    assert reclaimer.problems == ()


def test_it_ends_at_once_and_says_how_it_knows_of_pressure(node: NodeDouble, start: Start) -> None:
    reclaimer = start()
    facts = dict(reclaimer.facts)
    assert str(facts["memory pressure is known from"]).startswith("polling: ")
    reclaimer.stop()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("reclaim-")]


def test_a_pod_that_the_api_does_not_have_is_not_asked_for_again_and_again(
    node: NodeDouble, api: KubeApi, double: ApiDouble, start: Start
) -> None:
    node.add(use=1)
    double.answers = [Answer(404, {"reason": "NotFound"}), Answer(500, {})]
    reclaimer = start(api)
    reclaimer.tick(time.monotonic(), node.snapshot())
    until("it is asked for", lambda: double.asked)
    rounds = time.monotonic() + 1.5  # the worker looks for something to ask twice a second
    until("three more chances to ask", lambda: time.monotonic() > rounds)
    assert len(double.asked) == 1
    assert ("the API is asked", "with success") in reclaimer.facts


def test_how_fast_memory_falls() -> None:
    fall = Fall()
    assert fall.after(0.0, 1000) == 0.0
    assert fall.after(0.5, 900) == 100.0, "as if nothing more was lost in the rest of the second"
    assert fall.after(1.0, 800) == 200.0
    assert fall.after(1.5, 800) == 100.0
    assert fall.after(4.5, 200) == 200.0
    assert fall.after(5.5, 300) == -100.0


@pytest.mark.parametrize("text", ["", "MemFree: 1 kB\n", "MemFree: x kB\nMemAvailable: 1 kB\n"])
def test_a_meminfo_that_is_none_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)
    with pytest.raises(ValueError, match=r"."):
        read_meminfo(str(tmp_path / "meminfo"))
