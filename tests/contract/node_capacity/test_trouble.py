# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What can go wrong between node_capacity and a real API server, and that it is told exactly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import PRESENT, Wish
from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_run import CapacityRun
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import parse_quantity
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes

GPU, MEMORY = "mock.com/gpu", "mock/gpu-memory"
User = Callable[..., dict[str, Any]]
READ_AND_WRITE = (("get,list", "nodes"), ("patch", "nodes/status"))


def before_each_patch(monkeypatch: pytest.MonkeyPatch, do: Callable[[int], None]) -> list[str]:
    """Do something just before each patch that the module sends; the paths that were patched."""
    patched: list[str] = []
    lock = threading.Lock()
    genuine = KubeClient.patch

    def patch(client: KubeClient, path: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        if options.get("field_manager", "").startswith("colocation"):
            with lock:
                patched.append(path)
                number = len(patched)
            do(number)
        return genuine(client, path, *arguments, **options)

    monkeypatch.setattr(KubeClient, "patch", patch)
    return patched


@pytest.mark.parametrize("theirs", ["7", "10"])
def test_another_writer_of_the_same_resource_is_noticed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    [node] = nodes.make("a")
    patched = before_each_patch(monkeypatch, lambda number: nodes.write(node, GPU, theirs) if number == 1 else None)
    answer = nodes.set(node=[node], resources={GPU: 10})
    assert not answer.get("failed") and nodes.status(node) == {GPU: "10"}
    assert len(patched) == (2 if theirs == "7" else 1)  # with 10 there is nothing left to do


def test_another_writer_of_another_resource_is_not_in_the_way(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    [node] = nodes.make("a")
    patched = before_each_patch(monkeypatch, lambda number: nodes.write(node, MEMORY, str(number)))
    assert nodes.set(node=[node], resources={GPU: 10})["changed"]
    assert (nodes.status(node), len(patched)) == ({GPU: "10", MEMORY: "1"}, 1)


def test_exact_does_not_overlook_what_appears_meanwhile(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    [node] = nodes.make("a")
    nodes.write(node, GPU, "1")
    before_each_patch(monkeypatch, lambda number: nodes.write(node, GPU, "5") if number == 1 else None)
    assert nodes.set(node=[node], resources={MEMORY: 1}, state="exact")["changed"]
    assert nodes.status(node) == {MEMORY: "1"}


def test_a_writer_that_is_always_faster(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    [node] = nodes.make("a")
    before_each_patch(monkeypatch, lambda number: nodes.write(node, GPU, str(1000 + number)))
    answer = nodes.set(node=[node], resources={GPU: 10})
    assert answer["failed"] and "10 times" in answer["msg"] and answer["changed"] is False


def test_two_calls_at_once_end_in_one_of_the_two_wishes(nodes: Nodes) -> None:
    names = nodes.make(*(f"n{number}" for number in range(10)))
    wishes = [Wish(PRESENT, {GPU: parse_quantity(text)}) for text in ("3", "4")]
    outcomes: list[Any] = []

    def run(wish: Wish) -> None:
        outcomes.extend(CapacityRun(nodes.client, wish).run(dict.fromkeys(names)))

    threads = [threading.Thread(target=run, args=(wish,)) for wish in wishes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.problem for one in outcomes] == [""] * 20
    assert {nodes.status(name)[GPU] for name in names} <= {"3", "4"}


def test_what_the_server_refuses_is_no_race(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    [node] = nodes.make("a")
    patched = before_each_patch(monkeypatch, lambda number: None)
    [outcome] = CapacityRun(nodes.client, Wish(PRESENT, {GPU: parse_quantity("1500m")})).run({node: None})
    assert "must be an integer" in outcome.problem and len(patched) == 1
    assert nodes.status(node) == {}


def test_some_nodes_fail_and_the_others_are_done(nodes: Nodes) -> None:
    first, second = nodes.make("a", "b")
    answer = nodes.set(node=[first, "missing", second], resources={GPU: 1})
    assert answer["failed"] and answer["changed"]
    assert answer["msg"].startswith("1 of 3 nodes failed. missing: there is no node 'missing'")
    assert [(one["failed"], one["changed"]) for one in answer["results"]] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert nodes.status(first) == nodes.status(second) == {GPU: "1"}


@pytest.mark.parametrize("check_mode", [False, True])
def test_no_right_to_patch(nodes: Nodes, user: User, check_mode: bool) -> None:
    [node] = nodes.make("a")
    answer = nodes.set(kubeconfig=user(("get", "nodes")), node=[node], resources={GPU: 1}, check_mode=check_mode)
    assert answer["failed"] and "patch nodes/status" in answer["msg"] and "forbidden" in answer["msg"]
    assert nodes.status(node) == {}


def test_no_right_to_read_or_list(nodes: Nodes, user: User) -> None:
    [node] = nodes.make("a")
    nobody = user()
    assert "cannot get resource" in nodes.set(kubeconfig=nobody, node=[node], resources={GPU: 1})["msg"]
    told = nodes.set(kubeconfig=nobody, label_selectors=["a=b"], resources={GPU: 1})["msg"]
    assert "can't be listed" in told and "cannot list resource" in told
    assert "cannot list resource" in nodes.info(kubeconfig=nobody)["msg"]


def test_without_the_right_to_see_pods_nothing_is_removed(nodes: Nodes, user: User) -> None:
    [node] = nodes.make("a")
    nodes.write(node, GPU, "1")
    who = user(*READ_AND_WRITE)
    answer = nodes.set(kubeconfig=who, node=[node], resource=GPU, state="absent")
    assert answer["failed"] and "pods" in answer["msg"] and nodes.status(node) == {GPU: "1"}
    assert nodes.set(kubeconfig=who, node=[node], resource=GPU, value="2")["changed"]  # setting takes no such right
    assert nodes.set(kubeconfig=who, node=[node], resource=GPU, state="absent", force=True)["changed"]


def test_an_expired_token_and_one_that_is_good(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    account = nodes.client.get("/api/v1/namespaces/default/serviceaccounts/default")["metadata"]["uid"]
    expired = nodes.server.account_token("default", "default", account, -60)
    answer = nodes.set(kubeconfig=nodes.server.kubeconfig_with_token(expired), node=[node], resources={GPU: 1})
    assert answer["failed"] and "expired" in answer["msg"]
    good = nodes.server.account_token("default", "default", account, 600)
    answer = nodes.set(kubeconfig=nodes.server.kubeconfig_with_token(good), node=[node], resources={GPU: 1})
    assert "system:serviceaccount:default:default" in answer["msg"]  # known, and not allowed
    for token in (expired, good):
        assert token not in json.dumps(answer)


def test_secrets_are_nowhere_in_the_answer_and_the_rest_is(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    answer = json.dumps(nodes.set(node=[node], resources={GPU: 1}))
    assert nodes.kubeconfig["users"][0]["user"]["client-key-data"] not in answer
    assert nodes.server.server in answer  # in the invocation: what is no secret may be read
    refused = nodes.set(host=nodes.server.server, api_key="a-secret-token", validate_certs=False, node=[node])
    assert "a-secret-token" not in json.dumps(refused)


def test_a_server_that_is_another(nodes: Nodes) -> None:
    [node] = nodes.make("a")
    config = nodes.server.kubeconfig()
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    answer = nodes.set(kubeconfig=config, node=[node], resources={GPU: 1})
    assert "certificate is refused" in answer["msg"] and "ca_cert" in answer["msg"]
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    answer = nodes.set(kubeconfig=config, node=[node], resources={GPU: 1})
    assert "can't be reached: Connection refused" in answer["msg"]


@pytest.mark.parametrize(
    "name",
    ["../nodes", "a/b", "a?x=y", "A", "a b", "a\nb", "-a", "a%2fb", "ä", "x" * 254, ""],
)
def test_hostile_node_names(nodes: Nodes, name: str) -> None:
    answer = nodes.set(node=[name], resources={GPU: 1})
    assert answer["failed"] and "no node can be called" in answer["msg"]


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"cpu": 1}, "native"),
        ({"hugepages-2Mi": 1}, "native"),
        ({"gpu": 1}, "no prefix"),
        ({"node.kubernetes.io/gpu": 1}, "kubernetes.io"),
        ({"requests.mock.com/gpu": 1}, "quotas"),
        ({"mock.com/": 1}, "what follows"),
        ({"/gpu": 1}, "prefix"),
        ({"mock.com/a/b": 1}, "what follows"),
        ({"mock.com/~1gpu": 1}, "what follows"),
        ({"Mock.com/gpu": 1}, "prefix"),
        ({"mock.com/gpu\n": 1}, "what follows"),
        ({f"{'x' * 245}/gpu": 1}, "prefix"),
        ({f"mock.com/{'x' * 64}": 1}, "what follows"),
        ({GPU: "1.5"}, "no whole number"),
        ({GPU: "-1"}, "not between"),
        ({GPU: "9223372036854775808"}, "not between"),
        ({GPU: "ten"}, "no quantity"),
        ({GPU: None}, "needs an amount"),
        ({GPU: True}, "needs an amount"),
        ({}, "needs resources"),
    ],
)
def test_what_can_not_be_asked_for(nodes: Nodes, resources: dict[str, Any], told: str) -> None:
    """Nothing is sent for these: the API server would take most of the names."""
    answer = nodes.set(node=["worker"], resources=resources)
    assert answer["failed"] and told in answer["msg"] and "results" not in answer


@pytest.mark.parametrize("name", [f"{'.'.join(['x' * 60] * 4)}/{'y' * 63}", "a/b", "mock.com/A_b-c.d", "1.2/3"])
def test_unusual_names_that_are_good(nodes: Nodes, name: str) -> None:
    [node] = nodes.make("a")
    assert nodes.set(node=[node], resources={name: 1})["changed"]
    assert nodes.set(node=[node], resources={name: 1})["changed"] is False
    assert nodes.set(node=[node], resources={name: 1}, state="absent")["changed"]


def test_the_api_server_dies_in_the_middle(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    names = nodes.make(*(f"n{number:03}" for number in range(100)))
    before_each_patch(monkeypatch, lambda number: nodes.server.kill() if number == 30 else None)
    answer = nodes.set(node=names, resources={GPU: 10})
    monkeypatch.undo()
    nodes.server.start()
    assert answer["failed"] and answer["changed"]
    done = {one["node"] for one in answer["results"] if one["changed"]}
    failed = {one["node"]: one["msg"] for one in answer["results"] if one["failed"]}
    assert done and failed and done | set(failed) == set(names) and not done & set(failed)
    assert f"{len(failed)} of 100 nodes failed" in answer["msg"]
    for name in names:
        has_it = nodes.status(name) == {GPU: "10"}
        assert has_it == (name in done) or "may have been made or not" in failed[name]
    again = nodes.set(node=names, resources={GPU: 10})
    assert not again.get("failed") and all(nodes.status(name) == {GPU: "10"} for name in names)
    assert {one["node"] for one in again["results"] if one["changed"]} <= set(failed)


def test_an_answer_that_is_lost_is_found_out(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    [node] = nodes.make("a")
    genuine = KubeClient.patch
    lost: list[dict[str, Any]] = []

    def patch(client: KubeClient, path: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        answer = genuine(client, path, *arguments, **options)
        if not lost:
            lost.append(answer)
            raise ApiError("the connection broke")
        return answer

    monkeypatch.setattr(KubeClient, "patch", patch)
    answer = nodes.set(node=[node], resources={GPU: 10})
    assert answer["changed"] and not answer.get("failed") and nodes.status(node) == {GPU: "10"}
