# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is asked of the API, against a double of it; the real one: tests/contract/agents/test_reclaim_api.py."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    Answer,
    ApiDouble,
)
from colocation.common import events
from colocation.common.kube_api import ApiError, KubeApi
from colocation.device_plugin import evict, migrate_look
from colocation.device_plugin.evict import Said, judged
from colocation.device_plugin.reclaim import Action, Rung
from colocation.device_plugin.reclaim_view import Holding, PodHolding
from colocation.device_plugin.reclaim_work import message

RESOURCE = "test.com/colocation-memory"
POD = PodHolding("batch", "job-1", "uid-1", "", (Holding("main", ("CM-0-0", "CM-0-1", "CM-0-2")),))
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.timezone.utc)


def test_the_eviction_means_this_pod_and_no_namesake(api: KubeApi, double: ApiDouble) -> None:
    assert evict.evict(api, POD).said is Said.DONE
    (asked,) = double.asked
    assert (asked.verb, asked.path) == ("POST", "/api/v1/namespaces/batch/pods/job-1/eviction")
    assert asked.body["deleteOptions"] == {"preconditions": {"uid": "uid-1"}}
    assert asked.body["apiVersion"] == "policy/v1"


@pytest.mark.parametrize(
    ("problem", "said", "again"),
    [
        (ApiError("no", 429, "TooManyRequests", 7.0), Said.REFUSED, 7.0),
        (ApiError("no", 429), Said.REFUSED, evict.BUDGET_SECONDS),
        (ApiError("This pod has more than one PodDisruptionBudget, which …", 500), Said.REFUSED, evict.BUDGET_SECONDS),
        (ApiError("gone", 404), Said.GONE, 0.0),
        (ApiError("another uid", 409), Said.GONE, 0.0),
        (ApiError("no answer", 0), Said.FAILED, 0.0),
        (ApiError("trouble", 500), Said.FAILED, 0.0),
        (ApiError("not allowed", 403), Said.FAILED, 0.0),
    ],
)
def test_what_refusals_mean(problem: ApiError, said: Said, again: float) -> None:
    answer = judged(problem)
    assert (answer.said, answer.again, answer.why) == (said, again, str(problem))


def test_the_nodes_status_says_at_once_what_is_on_offer(api: KubeApi, double: ApiDouble) -> None:
    assert evict.offer(api, "worker1", RESOURCE, 3) == ""
    (asked,) = double.asked
    assert (asked.verb, asked.path) == ("PATCH", "/api/v1/nodes/worker1/status")
    assert asked.body == {"status": {"allocatable": {RESOURCE: "3"}}}
    double.answers = [Answer(403, {"message": "no"})]
    assert "403 no" in evict.offer(api, "worker1", RESOURCE, 3)


def test_an_event_is_written_once_and_then_counted_up(api: KubeApi, double: ApiDouble) -> None:
    reporter = events.Reporter(api, events.Source("colocation-device-plugin", "worker1"))
    about = events.About("Pod", "job-1", "uid-1", "batch")
    assert reporter.say(about, "ColocationEvicted", "why", NOON) == ""
    event = double.asked[0].body
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "name": "job-1", "uid": "uid-1", "namespace": "batch",
    }  # fmt: skip
    assert (event["reason"], event["message"], event["type"], event["count"]) == (
        "ColocationEvicted",
        "why",
        "Warning",
        1,
    )
    assert event["lastTimestamp"] == "2026-01-02T12:00:00Z"
    double.answers = [Answer(409, {"reason": "AlreadyExists"}), Answer(200, {})]
    assert reporter.say(about, "ColocationEvicted", "again", NOON) == ""
    patched = double.asked[-1]
    assert patched.verb == "PATCH"
    assert patched.path == f"/api/v1/namespaces/batch/events/{event['metadata']['name']}"
    assert patched.body == {"message": "again", "lastTimestamp": "2026-01-02T12:00:00Z", "count": 2}
    double.answers = [Answer(403, {"message": "no"})]
    assert "403 no" in reporter.say(events.node("worker1"), "ColocationEvicted", "x", NOON)
    assert double.asked[-1].path == "/api/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("rung", "said", "text"),
    [
        (Rung.SQUEEZE, Said.DONE, "Dropped up to 100 MiB of its page cache: because."),
        (Rung.MIGRATE, Said.DONE, "Evicted to free 100 MiB (3 blocks); worker2 has blocks for it: because."),
        (Rung.EVICT, Said.DONE, "Evicted to free 100 MiB (3 blocks): because."),
        (Rung.KILL, Said.FAILED, "Killed to free 100 MiB (3 blocks) at once: because."),
        (
            Rung.EVICT,
            Said.REFUSED,
            "A disruption budget refused the eviction that would free 100 MiB (3 blocks): because.",
        ),
    ],
)
def test_what_events_say(rung: Rung, said: Said, text: str) -> None:
    assert message(Action(rung, "uid-1", 100 << 20, "because", "worker2"), 3, evict.Answer(said)) == text


def nodes(count: int) -> Answer:
    """w1 with one block, w2 with two …"""
    conditions = [{"type": "Ready", "status": "True"}]
    numbers = range(1, count + 1)
    status = [{"allocatable": {RESOURCE: str(number)}, "conditions": conditions} for number in numbers]
    return Answer(200, {"items": [{"metadata": {"name": f"w{n}"}, "status": status[n - 1]} for n in numbers]})


CONTAINER = {"resources": {"limits": {RESOURCE: "99"}}}
FULL = Answer(200, {"items": [{"spec": {"containers": [CONTAINER]}, "status": {"phase": "Running"}}]})
EMPTY = Answer(200, {"items": []})


def test_nodes_are_looked_at_until_some_have_free_blocks(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [nodes(20), *[FULL] * 6, EMPTY]
    found = migrate_look.look(api, RESOURCE, "w20")
    assert [(room.node, room.blocks) for room in found] == [(f"w{number}", number) for number in (13, 12, 11, 10, 9)]
    asked = [request.path for request in double.asked]
    assert len(asked) == 1 + 6 + migrate_look.ENOUGH
    assert asked[1] == "/api/v1/pods?fieldSelector=spec.nodeName%3Dw19&resourceVersion=0"


def test_where_all_are_full_the_look_ends(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [nodes(60), FULL]
    assert migrate_look.look(api, RESOURCE, "w60") == ()
    assert len(double.asked) == 1 + migrate_look.MOST_NODES


def test_the_look_ends_when_something_else_is_to_be_done(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [nodes(20), EMPTY]
    found = migrate_look.look(api, RESOURCE, "w20", lambda: len(double.asked) == 3)
    assert [room.node for room in found] == ["w19", "w18"]
