# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is asked of the API and written there, against a double of it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Answer, ApiDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.gpu_model import RESOURCE, MadePod
from colocation.common.events import About
from colocation.common.kube_api import ApiError, KubeApi
from colocation.device_plugin.gpu_cluster import GpuCluster, PodBook
from colocation.device_plugin.gpu_pods import ASSIGNED, UUID

U0, U1 = (f"GPU-{n:08x}-0000-0000-0000-000000000000" for n in range(2))


@pytest.fixture
def cluster(api: KubeApi) -> GpuCluster:
    return GpuCluster(api, api, "worker1", RESOURCE)


def noted(pod: MadePod, uuid: str) -> dict[str, Any]:
    pod.annotations |= {UUID: uuid, ASSIGNED: "true"}
    return pod.document()


def test_the_book_has_those_who_want_units() -> None:
    book = PodBook(RESOURCE)
    one, other = MadePod(1, (), (4,)), MadePod(2, (), (5,))
    book.page([one.document(), MadePod(3, (), ()).document()])
    assert book.pods == ()
    book.listed()
    assert [pod.name for pod in book.pods] == ["pod-1"]
    book.happened("ADDED", other.document())
    one.phase = "Succeeded"
    book.happened("MODIFIED", one.document())
    assert [pod.name for pod in book.pods] == ["pod-2"]
    book.happened("DELETED", other.document())
    assert book.pods == ()
    book.page([other.document()])
    book.listed()
    assert [pod.name for pod in book.pods] == ["pod-2"]


def test_a_list_that_broke_leaves_nobody_behind() -> None:
    book = PodBook(RESOURCE)
    book.begins()
    book.page([MadePod(1, (), (4,)).document()])
    book.begins()
    book.page([MadePod(2, (), (4,)).document()])
    book.listed()
    assert [pod.name for pod in book.pods] == ["pod-2"]


def unreadable(number: int) -> dict[str, Any]:
    document = MadePod(number, (), (4,)).document()
    return document | {"spec": {"containers": ["no container"]}}


def test_a_pod_that_can_not_be_read_is_left_out_alone(
    cluster: GpuCluster, double: ApiDouble, caplog: pytest.LogCaptureFixture
) -> None:
    book, there = cluster.book, MadePod(2, (), (4,))
    book.page([unreadable(1), there.document()])
    book.listed()
    assert [pod.name for pod in book.pods] == ["pod-2"]
    book.happened("MODIFIED", unreadable(1))
    double.answers = [Answer(200, {"items": [unreadable(1), there.document()]})]
    assert [pod.name for pod in cluster.pods_now()] == ["pod-2"]
    assert caplog.messages == ["a pod can't be read, so it is left out"]


def test_only_the_nodes_own_pods_are_asked_for(cluster: GpuCluster, double: ApiDouble) -> None:
    double.answers = [Answer(200, {"items": [MadePod(1, (), (4,)).document()]})]
    assert [pod.name for pod in cluster.pods_now()] == ["pod-1"]
    assert double.asked[0].path == "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker1"


def test_the_truth_is_written_once(cluster: GpuCluster, double: ApiDouble) -> None:
    pod = MadePod(1, (), (4,), {UUID: U0, ASSIGNED: "false"})
    cluster.book.happened("ADDED", pod.document())
    double.answers = [Answer(200, noted(pod, U1))]
    cluster.record({(pod.uid, "c0"): (U1,)})
    cluster.work(1.0)
    cluster.work(2.0)
    (asked,) = double.asked
    assert (asked.verb, asked.path) == ("PATCH", "/api/v1/namespaces/n/pods/pod-1/status")
    assert asked.kind == "application/merge-patch+json"
    assert asked.body == {"metadata": {"uid": pod.uid, "annotations": {UUID: U1, ASSIGNED: "true"}}}
    assert cluster.noted == 1


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_pod_that_is_no_more_holds_nobody_up(cluster: GpuCluster, double: ApiDouble, status: int) -> None:
    gone, there = MadePod(1, (), (4,)), MadePod(2, (), (4,))
    for pod in (gone, there):
        cluster.book.happened("ADDED", pod.document())
    double.answers = [Answer(status, {"message": "no"}), Answer(200, noted(there, U1))]
    cluster.record({(gone.uid, "c0"): (U0,), (there.uid, "c0"): (U1,)})
    cluster.work(1.0)
    assert [asked.path.split("/")[-2] for asked in double.asked] == ["pod-1", "pod-2"]
    assert cluster.noted == 1
    assert (gone.uid in {pod.uid for pod in cluster.book.pods}) == (status != 404)


def test_the_answer_to_what_was_written_brings_nobody_back() -> None:
    book, pod = PodBook(RESOURCE), MadePod(1, (), (4,), {UUID: U0})
    book.happened("ADDED", pod.document())
    book.wrote(noted(pod, U1))
    assert [one.wish for one in book.pods] == [U1]
    book.happened("DELETED", pod.document())
    book.wrote(noted(pod, U1))
    assert book.pods == ()


@pytest.mark.parametrize(
    ("event", "answer", "expected"), [("9", "10", U1), ("11", "10", U0), ("100", "99", U0), ("a", "b", U1)]
)
def test_an_answer_that_is_older_than_an_event_says_nothing(event: str, answer: str, expected: str) -> None:
    def document(uuid: str, version: str) -> dict[str, Any]:
        made = MadePod(1, (), (4,), {UUID: uuid}).document()
        return made | {"metadata": made["metadata"] | {"resourceVersion": version}}

    book = PodBook(RESOURCE)
    book.happened("MODIFIED", document(U0, event))
    book.wrote(document(U1, answer))
    assert [pod.wish for pod in book.pods] == [expected]


def test_the_counts_are_written_where_they_differ(cluster: GpuCluster, double: ApiDouble) -> None:
    counts = {"doslab.io/gpu-count": "2", "doslab.io/gpu-core": "200"}
    cluster.count(counts)
    double.answers = [Answer(200, {"status": {"capacity": {"doslab.io/gpu-count": "2", "cpu": "4"}}}), Answer(200, {})]
    cluster.work(1.0)
    get, patch = double.asked
    assert get.path == "/api/v1/nodes/worker1"
    assert (patch.verb, patch.path) == ("PATCH", "/api/v1/nodes/worker1/status")
    assert patch.body == {"status": {"capacity": counts, "allocatable": counts}}
    double.answers = [Answer(200, {"status": {"capacity": counts}})]
    cluster.work(2.0)
    cluster.count(dict(counts))
    cluster.work(20.0)
    assert len(double.asked) == 2
    cluster.work(31.0)  # looked at again, and nothing to do
    cluster.look_again()
    cluster.work(32.0)
    assert [asked.verb for asked in double.asked[2:]] == ["GET", "GET"]


def test_events_are_about_a_pod_or_the_node(cluster: GpuCluster, double: ApiDouble) -> None:
    cluster.tell(About("Pod", "pod-1", "u", "n"), "Larger", "than any.")
    cluster.tell(None, "Ill", "a GPU.")
    cluster.work(1.0)
    bodies = [asked.body for asked in double.asked]
    assert [(body["involvedObject"]["kind"], body["reason"]) for body in bodies] == [("Pod", "Larger"), ("Node", "Ill")]
    assert bodies[1]["involvedObject"]["name"] == "worker1"


def test_one_that_is_refused_keeps_nobody_else_waiting(cluster: GpuCluster, double: ApiDouble) -> None:
    refused, other = MadePod(1, (), (4,)), MadePod(2, (), (4,))
    for pod in (refused, other):
        cluster.book.happened("ADDED", pod.document())
    cluster.record({(refused.uid, "c0"): (U0,), (other.uid, "c0"): (U1,)})
    cluster.tell(None, "Ill", "a GPU.")
    double.answers = [Answer(403, {"message": "forbidden"}), Answer(200, noted(other, U1)), Answer(201, {})]
    with pytest.raises(ApiError, match="forbidden"):
        cluster.work(1.0)
    assert [asked.verb for asked in double.asked] == ["PATCH", "PATCH", "POST"]
    double.answers = [Answer(None)]
    double.asked.clear()
    with pytest.raises(ApiError):
        cluster.work(2.0)
    assert len(double.asked) == 1


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_one_that_is_refused_again_and_again_takes_one_choice_only(
    cluster: GpuCluster, double: ApiDouble, status: int
) -> None:
    refused, *others = (MadePod(n, (), (4,), {UUID: uuid}) for n, uuid in enumerate((U1, U0, U0)))
    for pod in (refused, *others):
        cluster.book.happened("ADDED", pod.document())
    cluster.record({(refused.uid, "c0"): (U0,)})
    swapped = MadePod(1, (), (4,), {UUID: U1}).document()
    double.answers = [Answer(200, swapped), *(Answer(status, {"message": "no"}) for _try in range(3))]
    for now in (1.0, 2.0, 3.0):
        try:
            cluster.work(now)
        except ApiError:
            continue
        assert now == 1.0 and status in (409, 422)  # it may have been gone
    assert [asked.path.split("/")[-2] for asked in double.asked] == ["pod-1", *["pod-0"] * 3]
    assert [pod.wish for pod in cluster.settled(cluster.book.pods)] == [U0, U1, U0]
    double.answers = [Answer(200, noted(refused, U0))]
    cluster.work(4.0)
    assert len(double.asked) == 5


def test_an_api_that_refuses_is_asked_again_later(cluster: GpuCluster, double: ApiDouble) -> None:
    pod = MadePod(1, (), (4,))
    cluster.book.happened("ADDED", pod.document())
    cluster.record({(pod.uid, "c0"): (U1,)})
    double.answers = [Answer(403, {"message": "forbidden"}), Answer(200, noted(pod, U1))]
    with pytest.raises(ApiError, match="forbidden"):
        cluster.work(1.0)
    cluster.work(2.0)
    assert cluster.noted == 1
