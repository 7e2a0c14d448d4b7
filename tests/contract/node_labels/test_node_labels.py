# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The module node_labels on a real API server, as an administrator and as the node's own kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.modules import node_labels
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

OURS = {"test.com/colocation-memory": "true"}
KUBELET = {"impersonate_user": "system:node:n1", "impersonate_groups": ["system:nodes"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("api")) as made:
        with KubeClient(find_access({"kubeconfig": made.kubeconfig()})) as client:
            for name in ("n1", "n2"):
                node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"old": "1"}}}
                client.post("/api/v1/nodes", node)
        yield made


def ask(server: ApiServer, node: str = "n1", check_mode: bool = False, **more: Any) -> dict[str, Any]:
    given = {"kubeconfig": server.kubeconfig(), "node": node, "labels": OURS, **more}
    return call(node_labels.main, check_mode, **given)


def test_a_kubelet_labels_its_own_node_and_no_other(server: ApiServer) -> None:
    foretold = ask(server, check_mode=True, **KUBELET)
    done = ask(server, **KUBELET)
    again = ask(server, **KUBELET)
    assert [answer["changed"] for answer in (foretold, done, again)] == [True, True, False]
    assert foretold["diff"] == done["diff"]
    assert again["labels"].items() >= {**OURS, "old": "1"}.items()
    other = ask(server, "n2", **KUBELET)
    assert other["failed"]
    assert "403" in other["msg"]
    removed = ask(server, state="absent", **KUBELET)
    assert removed["changed"]
    assert removed["labels"].items().isdisjoint(OURS.items())
    assert not ask(server, state="absent")["changed"]


def test_a_label_that_somebody_changed_stays(server: ApiServer) -> None:
    ask(server, "n2", labels={"a.com/b": "theirs"})
    kept = ask(server, "n2", labels={"a.com/b": "ours"}, state="absent")
    assert not kept["changed"]
    assert kept["labels"]["a.com/b"] == "theirs"


def test_a_node_that_is_not_there(server: ApiServer) -> None:
    assert "no Node 'gone'" in ask(server, "gone")["msg"]
    assert not ask(server, "gone", state="absent")["changed"]


@pytest.mark.parametrize(
    "labels", [{"node.kubernetes.io/x": "1"}, {"a b": "1"}, {"a": "-"}, {"/a": "1"}, {"A.com/a": "1"}, {"a": "x" * 64}]
)
def test_what_is_no_label_is_refused_before_the_api_is_asked(labels: dict[str, str]) -> None:
    answer = call(node_labels.main, kubeconfig="/nowhere", node="n1", labels=labels)
    assert answer["failed"]
    assert "label" in answer["msg"] or "Kubernetes keeps" in answer["msg"]
