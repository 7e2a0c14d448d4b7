# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent's side: snapshots by pod, limits and reclaim as the configuration says, on a made-up node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Answer, ApiDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MIB, MadeNode
from colocation.common.config import ConfigError, load
from colocation.common.kube_api import KubeApi
from colocation.common.metrics import Registry
from colocation.device_plugin import reclaim_guard
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_snapshot import Holder, MemorySnapshot
from colocation.device_plugin.reclaim_config import Kubernetes, Reclaim
from colocation.device_plugin.reclaim_guard import LATE_SECONDS, Guard, identities, view
from colocation.device_plugin.reclaim_view import Holding, PodHolding
from colocation.device_plugin.reclaim_work import Identities

RESOURCE = "test.com/colocation-memory"
UID = "0f31a2b4-1111-4222-8333-44445555aaaa"
NOBODY = Kubernetes(kubeconfig="", node="worker1")


def snapshot(*holders: Holder) -> MemorySnapshot:
    held = sum(len(holder.blocks) for holder in holders)
    return MemorySnapshot(0.0, 0.0, 512 * MIB, 8 * GIB, 4 * GIB, 0, 0, held, held, held, (), holders)


def until(what: str, holds: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def test_holders_become_pods() -> None:
    seen = view(
        snapshot(
            Holder("", "", "u1", "first", ("CM-0-0",), "/c1"),
            Holder("batch", "job", "u1", "second", ("CM-0-1", "CM-0-2"), "/c1"),
            Holder("batch", "new", "", "main", ("CM-0-3",)),  # only its name is known yet
        ),
        RESOURCE,
    )
    parts = (Holding("first", ("CM-0-0",)), Holding("second", ("CM-0-1", "CM-0-2")))
    assert seen.pods == (PodHolding("batch", "job", "u1", "/c1", parts),)
    assert (seen.allocated, seen.block_bytes) == (4, 512 * MIB)


def test_what_is_offered_and_what_fits_are_two_figures() -> None:
    known = replace(snapshot(), target=5, fits=7)
    assert (view(known, RESOURCE).target, view(known, RESOURCE).fits) == (5, 7)


class Made:
    """A node with one pod that holds two blocks."""

    def __init__(self, place: Path) -> None:
        self.node = MadeNode(place, driver="cgroupfs")
        self.node.memory(8 * GIB, 4 * GIB)
        self.memory = Memory(proc=str(self.node.proc))
        self.cgroup = self.node.pod(UID, GIB)
        for name, text in (("memory.max", "max\n"), ("cgroup.kill", "")):
            (self.cgroup / name).write_text(text)
        self.seen = snapshot(Holder("batch", "job", UID, "main", ("CM-0-0", "CM-0-1"), str(self.cgroup)))

    def read(self, name: str) -> str:
        return (self.cgroup / name).read_text()


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def guard() -> Iterator[Guard]:
    one = Guard(Registry())
    yield one
    one.stop()


def test_a_pod_is_held_to_its_blocks_and_goes_when_memory_is_short(made: Made, guard: Guard) -> None:
    guard.configure({RESOURCE: made.memory}, Reclaim(), NOBODY)
    guard.tick(made.seen, 0.0)
    assert made.read("memory.max") == str(GIB)
    made.node.memory(8 * GIB, 100 * MIB)
    until("it is killed", lambda: made.read("cgroup.kill") == "1")
    # Nobody can evict it, so it stays, and with it its blocks.
    until("that is told", lambda: any(row[4] == "failed" for table in guard.tables for row in table.rows))
    until("its blocks are back", lambda: guard.withdrawn == frozenset())
    assert guard.problems == ()
    assert ("blocks withdrawn", 0) in guard.facts


@pytest.mark.parametrize("config", [Reclaim(enabled=False), Reclaim(enforce=False), None])
def test_what_is_switched_off_is_not_done(made: Made, guard: Guard, config: Reclaim | None) -> None:
    guard.configure({RESOURCE: made.memory}, Reclaim(), NOBODY)
    guard.configure({RESOURCE: made.memory} if config else {}, config or Reclaim(), NOBODY)
    guard.tick(made.seen, 0.0)
    assert (made.read("memory.max") == str(GIB)) == (config is not None and config.enforce)
    assert bool(guard.tables) == (config is not None and config.enabled)
    assert (guard.withdrawn, guard.problems) == (frozenset(), ())


def test_a_reload_that_changes_nothing_goes_on(made: Made, guard: Guard) -> None:
    guard.configure({RESOURCE: made.memory}, Reclaim(), NOBODY)
    before = guard._reclaimer
    guard.configure({RESOURCE: Memory(proc=made.memory.proc)}, Reclaim(), Kubernetes(kubeconfig="", node="worker1"))
    assert guard._reclaimer is before
    guard.configure({RESOURCE: made.memory}, Reclaim(soft_percent=6.0), NOBODY)
    assert guard._reclaimer is not before


def sidecar(uid: str = UID) -> Answer:
    """A pod as the API shows it: one container with blocks, one with a limit of 1 GiB."""
    limits = ({RESOURCE: "2"}, {"memory": "1Gi"})
    containers = [{"name": f"c{n}", "resources": {"limits": limit}} for n, limit in enumerate(limits)]
    return Answer(200, {"metadata": {"uid": uid}, "spec": {"containers": containers}})


@pytest.fixture
def who(api: KubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server's double is asked."""
    monkeypatch.setattr(reclaim_guard, "identities", lambda _config, _kubernetes: Identities("worker1", api))


@pytest.mark.usefixtures("who")
@pytest.mark.parametrize("enabled", [True, False])
def test_other_containers_limits_come_on_top_also_after_a_reload(
    made: Made, guard: Guard, double: ApiDouble, enabled: bool
) -> None:
    double.answers = [sidecar(), Answer(503, {})]

    def limited(by: int) -> bool:
        guard.tick(made.seen, time.monotonic())
        return made.read("memory.max") == str(by)

    guard.configure({RESOURCE: made.memory}, Reclaim(enabled=enabled), NOBODY)
    until("the API told of it", lambda: limited(2 * GIB))
    assert ("the API is asked", "with success") in guard.facts
    guard.configure({RESOURCE: made.memory}, Reclaim(enabled=enabled, soft_percent=6.0), NOBODY)
    assert guard._worker is not None
    assert guard._worker.facts(UID).others == GIB
    assert limited(2 * GIB)


@pytest.mark.usefixtures("who")
def test_a_limit_stays_while_the_api_does_not_answer_and_that_is_told(
    made: Made, guard: Guard, double: ApiDouble
) -> None:
    double.answers = [Answer(503, {})] * 9
    (made.cgroup / "memory.max").write_text(f"{2 * GIB}\n")  # by the agent before this one
    guard.configure({RESOURCE: made.memory}, Reclaim(), NOBODY)
    guard.tick(made.seen, 0.0)
    assert made.read("memory.max") == f"{2 * GIB}\n"
    until("it was asked", lambda: dict(guard.facts)["the API is asked"] != "with success")
    guard.tick(made.seen, LATE_SECONDS - 1)
    assert guard.problems == ()
    guard.tick(made.seen, LATE_SECONDS)
    assert "the API did not tell of batch/job" in guard.problems[0]
    assert "503" in guard.problems[0]
    guard.tick(snapshot(), LATE_SECONDS + 1)
    assert guard.problems == ()


def test_without_an_api_a_containers_own_limit_comes_on_top(made: Made, guard: Guard) -> None:
    (made.cgroup / "0123abc" / "memory.max").write_text(f"{300 * MIB}\n")
    guard.configure({RESOURCE: made.memory}, Reclaim(enabled=False), NOBODY)
    guard.tick(made.seen, 0.0)
    assert made.read("memory.max") == str(GIB + 300 * MIB)
    guard.tick(made.seen, LATE_SECONDS)
    assert guard.problems == (), "nobody was to be asked"


def test_holders_that_have_no_control_group_for_long_are_a_problem(made: Made, guard: Guard) -> None:
    lost = snapshot(*(Holder("batch", f"job-{n}", f"u{n}", "main", (f"CM-0-{n}",)) for n in range(5)))
    guard.configure({RESOURCE: made.memory}, Reclaim(enabled=False, enforce=False), NOBODY)
    guard.tick(lost, 0.0)
    guard.tick(lost, LATE_SECONDS - 1)
    assert guard.problems == ()
    guard.tick(lost, LATE_SECONDS)
    (problem,) = guard.problems
    assert problem.startswith("batch/job-0, batch/job-1, batch/job-2 and 2 more hold blocks and have no control group")
    guard.tick(made.seen, LATE_SECONDS + 1)
    assert guard.problems == ()


def test_who_asks_the_api() -> None:
    nobody = identities(Reclaim(), NOBODY)
    assert (nobody.node, nobody.api, nobody.others) == ("worker1", None, None)
    config = load(Reclaim, "migrate: {kubeconfig: /x}", "f")
    both = identities(config, Kubernetes())
    assert both.node
    assert both.api is not None
    assert both.others is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("soft_percent: 3", "hard_percent: must be less than soft_percent, which is 3"),
        ("soft_percent: 60", "soft_percent: must be between 0 and 50, not 60"),
        ("pressure: {stall_ms: 2000}", "pressure.stall_ms: can't be longer than the window of 1000 ms"),
        ("victims: {budgets: never}", 'victims.budgets: "never" is no choice here'),
        ("migrate: {kubeconfig: x}", 'migrate.kubeconfig: "x" does not begin with /'),
        ("dryrun: true", 'dryrun: unknown key; did you mean "dry_run"?'),
    ],
)
def test_a_bad_configuration_is_refused_with_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(Reclaim, text, "f.yaml")
    assert complaint in str(refused.value)
