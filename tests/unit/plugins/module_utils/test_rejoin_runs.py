# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whole rejoins against doubles: undisturbed, killed at any stroke, with machines that restart in between."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_object import describe
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_cluster import Terms
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import NodeLock, object_name
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import STEPS, HostView, RejoinRefused
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.credentials_made import AUTHORITY, coded
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import (
    NAMESPACE,
    HostDouble,
    Killed,
    KubeDouble,
    Strokes,
    furnish,
    leftovers,
    rejoin,
    snapshot,
)

NODE = "worker1"
DS = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": True}
RS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}


class World:
    """A node, its machine, and a clock that only waits move."""

    def __init__(self, **spec: Any) -> None:
        self.api = KubeDouble()
        self.now = 0.0
        furnish(self.api, NODE, coded(AUTHORITY), **spec)
        self.host = HostDouble(self.api, NODE)
        metadata = {"name": "agent", "namespace": "default"}
        self.api.post("/apis/apps/v1/namespaces/default/daemonsets", {"metadata": metadata})
        self.pod("web-1", RS)
        self.pod("agent-1", DS)

    def pod(self, name: str, *owners: Any, **status: Any) -> None:
        metadata = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
        body = {"metadata": metadata, "spec": {"nodeName": NODE}, "status": status}
        self.api.post("/api/v1/namespaces/default/pods", body)

    def pods(self) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.api.items("/api/v1/pods"))

    def run(self, strokes: Strokes | None = None, terms: Terms | None = None) -> tuple[str, ...]:
        times = {"clock": lambda: self.now, "sleep": self.sleep, "now": lambda: 1e9 + self.now}
        return rejoin(self.api, self.host, strokes or Strokes(), terms, **times)

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.1)

    def cordoned(self) -> bool:
        return bool(self.api.get(f"/api/v1/nodes/{NODE}")["spec"].get("unschedulable"))


def _undisturbed() -> tuple[dict[str, Any], int]:
    world, strokes = World(), Strokes()
    before = snapshot(world.api, NODE)
    uid = world.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["uid"]
    assert world.run(strokes) == STEPS
    assert world.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["uid"] != uid
    assert snapshot(world.api, NODE) == before
    return before, strokes.count


END, STROKES = _undisturbed()


def _assert_back(world: World) -> None:
    assert snapshot(world.api, NODE) == END
    host = world.host
    assert (host.identity, host.mark, host.kubelet_runs, host.agents_run) == ("new", "", True, True)
    assert [one.path for one in host.files] == ["/etc/cni/net.d/10-own.conflist"]
    assert host.flags == {"node-ip": "10.0.0.11"}


def test_a_node_comes_back_as_it_was() -> None:
    world = World()
    world.run()
    _assert_back(world)
    assert world.pods() == ["agent-1"]  # of a DaemonSet; the other went elsewhere
    assert END["labels"]["team"] == "blue" and END["gpus"] == "10" and END["left"] == []
    annotations = world.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]
    assert annotations == {"example.com/rack": "r1"}  # what the network's daemon said of the old Node is not kept


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_is_killed_at_any_stroke_is_finished_by_the_next(after: bool, restarts: bool) -> None:
    for at in range(1, STROKES + 1):
        world = World()
        with pytest.raises(Killed):
            world.run(Strokes(at, after))
        if restarts:
            world.host.reboot()
        world.run()
        _assert_back(world)


@pytest.mark.parametrize("after", [True, False])
def test_health_sees_every_cordon_that_a_killed_run_leaves(after: bool) -> None:
    seen = 0
    for at in range(1, STROKES + 1):
        world = World()
        with pytest.raises(Killed):
            world.run(Strokes(at, after))
        node = world.api.find(f"/api/v1/nodes/{NODE}")
        if node is not None and node["spec"].get("unschedulable"):
            seen += 1
            assert describe(NODE, node, {}, 0, ()).rejoining, at
    assert seen > 5
    world = World(unschedulable=True)
    assert not describe(NODE, world.api.get(f"/api/v1/nodes/{NODE}"), {}, 0, ()).rejoining


@given(st.lists(st.tuples(st.integers(1, STROKES), st.booleans(), st.booleans()), max_size=4))
def test_any_history_of_kills_and_restarts_ends_in_the_same_place(history: list[tuple[int, bool, bool]]) -> None:
    world = World()
    for at, after, restarts in history:
        try:
            world.run(Strokes(at, after))
        except Killed:
            pass
        if restarts:
            world.host.reboot()
    world.run()
    _assert_back(world)


def test_what_was_begun_is_finished_and_nothing_else_is_begun() -> None:
    world = World()
    assert world.run(terms=Terms(only_unfinished=True)) == ()
    assert leftovers(world.api, NODE) == []
    with pytest.raises(Killed):
        world.run(Strokes(STROKES - 8))
    assert world.run(terms=Terms(only_unfinished=True)) != ()
    _assert_back(world)


def test_a_cordoned_node_comes_back_cordoned() -> None:
    world = World(unschedulable=True)
    with pytest.raises(Killed):
        world.run(Strokes(8))  # by now the cordon may be taken for our own
    world.run()
    assert world.cordoned()


def test_a_node_without_its_object_joins_and_nothing_is_invented() -> None:
    world = World()
    world.api.delete(f"/api/v1/nodes/{NODE}")
    steps = world.run()
    assert steps == tuple(step for step in STEPS if step not in ("drain", "delete"))
    found = snapshot(world.api, NODE)
    assert (found["cordoned"], found["left"], found["gpus"]) == (False, [], None)


def test_pods_that_nothing_would_start_again_are_named_and_nothing_is_changed() -> None:
    world = World()
    world.pod("mine")
    with pytest.raises(RejoinRefused, match=r"default/mine.*rejoin_delete_bare_pods"):
        world.run()
    assert not world.cordoned() and leftovers(world.api, NODE) == []
    world.run(terms=Terms(delete_bare_pods=True))
    assert world.pods() == ["agent-1"]


def test_a_disruption_budget_is_waited_for_as_long_as_there_is_time() -> None:
    world = World()
    world.api.budget["web-1"] = 1
    world.run()
    _assert_back(world)
    world = World()
    world.api.budget["web-1"] = 99
    with pytest.raises(RejoinRefused, match=r"default/web-1 \(it would violate"):
        world.run()
    assert world.host.kubelet_runs
    world.api.budget.clear()
    world.host.reboot()
    world.run()
    _assert_back(world)


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_drain_that_fails_is_undone(cordoned: bool) -> None:
    world = World(**({"unschedulable": True} if cordoned else {}))
    before = world.api.get(f"/api/v1/nodes/{NODE}")
    world.api.budget["web-1"] = 99
    with pytest.raises(RejoinRefused):
        world.run()
    after = world.api.get(f"/api/v1/nodes/{NODE}")
    assert (after["spec"], after["metadata"]["annotations"]) == (before["spec"], before["metadata"]["annotations"])
    assert leftovers(world.api, NODE) == []


@pytest.mark.parametrize("after", [True, False])
def test_a_drain_that_fails_and_whose_end_is_killed_is_finished_by_the_next_run(after: bool) -> None:
    for at in itertools.count(1):
        world = World()
        world.api.budget["web-1"] = 99
        strokes = Strokes(at, after)
        with pytest.raises((Killed, RejoinRefused)):
            world.run(strokes)
        if strokes.count < at:
            break
        world.api.budget.clear()
        world.run()
        _assert_back(world)
    assert at > 8


def test_what_fails_after_the_drain_stays_saved_and_cordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with monkeypatch.context() as patched:
        patched.setattr(world.host, "stop", _refuses)
        with pytest.raises(RejoinRefused):
            world.run()
    assert world.cordoned() and leftovers(world.api, NODE) == ["colocation-rejoin-worker1"]
    world.pod("web-2", RS)
    world.api.budget["web-2"] = 99
    with pytest.raises(RejoinRefused, match="web-2"):  # a drain again, but not the first
        world.run()
    assert world.cordoned() and leftovers(world.api, NODE) == ["colocation-rejoin-worker1"]
    world.api.budget.clear()
    world.run()
    _assert_back(world)


def test_a_node_that_goes_while_it_is_drained_stays_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.api.stuck.add("web-1")
    sleep = world.sleep

    def goes(seconds: float) -> None:
        sleep(seconds)
        world.api.objects.pop(f"/api/v1/nodes/{NODE}", None)

    with monkeypatch.context() as patched:
        patched.setattr(world, "sleep", goes)
        with pytest.raises(RejoinRefused, match="is gone again"):
            world.run()
    assert leftovers(world.api, NODE) == ["colocation-rejoin-worker1"]
    world.run()
    _assert_back(world)


def _refuses(_operation: str) -> dict[str, Any]:
    raise RejoinRefused("pods have not ended")


def test_a_dead_node_is_not_waited_for() -> None:
    world = World()
    world.api.stuck.add("web-1")
    with pytest.raises(RejoinRefused, match="is ending"):
        world.run()
    world.host.kubelet_runs = False  # it crashed; its containers run on
    world.run()
    _assert_back(world)


def test_a_node_that_dies_while_it_is_drained_is_not_waited_for_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.api.stuck.add("web-1")
    sleep = world.sleep

    def dies(seconds: float) -> None:
        sleep(seconds)
        if world.host.kubelet_runs and world.host.identity == "old":
            world.host.sync({"conditions": [{"type": "Ready", "status": "Unknown"}]})

    monkeypatch.setattr(world, "sleep", dies)
    world.run()
    _assert_back(world)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"control_plane": True}, "control plane"),
        ({"problems": ("containerd does not answer",)}, "containerd does not answer"),
        ({"reachable": False}, "rejoin_fenced"),
    ],
)
def test_refusals_leave_everything_as_it_is(fields: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    view, files = world.host.look()
    monkeypatch.setattr(world.host, "look", lambda: (replace(view, **fields), files))
    before = snapshot(world.api, NODE)
    with pytest.raises(RejoinRefused, match=said):
        world.run()
    assert snapshot(world.api, NODE) == before
    assert world.host.kubelet_runs


def test_a_host_that_is_off_and_whose_node_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    fenced = Terms(fenced=True)
    monkeypatch.setattr(world.host, "look", lambda: (HostView("inventory-name"), ()))
    monkeypatch.setattr(world.host, "node", "inventory-name")
    with pytest.raises(RejoinRefused, match="knows no Node inventory-name; .*rejoin_node_name"):
        world.run(terms=fenced)
    assert leftovers(world.api, "inventory-name") == []
    monkeypatch.undo()
    with pytest.raises(Killed):
        world.run(Strokes(STROKES // 2))
    world.api.objects.pop(f"/api/v1/nodes/{NODE}", None)
    monkeypatch.setattr(world.host, "look", lambda: (HostView(NODE), ()))
    assert world.run(terms=fenced) == ()  # its Node went, and what it was is saved


def test_two_runs_keep_out_of_each_others_way() -> None:
    world = World()
    times: dict[str, Any] = {"clock": lambda: world.now, "sleep": world.sleep, "now": lambda: 1e9 + world.now}
    first = NodeLock(world.api, NODE, NAMESPACE, "first", 30, **times)  # type: ignore[arg-type]
    first.acquire()

    def wakes_up(seconds: float) -> None:
        world.sleep(seconds)
        first.renew()

    second = NodeLock(world.api, NODE, NAMESPACE, "second", 30, **{**times, "sleep": wakes_up})  # type: ignore[arg-type]
    with pytest.raises(RejoinRefused, match="another run \\(first\\)"):
        second.acquire()
    second = NodeLock(world.api, NODE, NAMESPACE, "second", 30, **times)  # type: ignore[arg-type]
    second.acquire()  # nobody renewed it
    with pytest.raises(RejoinRefused, match="lost its lock"):
        first.renew()
    first.release()  # not its own any more
    second.renew()


def test_a_lock_of_a_wrong_clock_is_watched_not_believed() -> None:
    world = World()
    times: dict[str, Any] = {"clock": lambda: world.now, "sleep": world.sleep}
    ahead = NodeLock(world.api, NODE, NAMESPACE, "ahead", 30, now=lambda: 2e9, **times)  # type: ignore[arg-type]
    ahead.acquire()
    NodeLock(world.api, NODE, NAMESPACE, "me", 30, now=lambda: 1e9, **times).acquire()  # type: ignore[arg-type]
    assert 30 <= world.now < 33


def test_a_saved_state_that_cant_be_read_is_not_written_over() -> None:
    world = World()
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    world.api.post(secrets, {"metadata": {"name": object_name(NODE)}, "data": {"state.json": "bm9uc2Vuc2U="}})
    with pytest.raises(RejoinRefused, match="kube-system/colocation-rejoin-worker1 can't be read"):
        world.run()
    assert not world.cordoned()


def test_names_of_lock_and_state_fit_and_stay_apart() -> None:
    long, longer = "n" * 253, "n" * 252 + "m"
    assert object_name("worker1") == "colocation-rejoin-worker1"
    assert len(object_name(long)) <= 253
    assert object_name(long) != object_name(longer)
