# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""kubelet_endpoint: what it asks of the API, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kubelet_identity
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_endpoint import ANNOTATION
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_switch import SwitchError
from ansible_collections.colocation.kubernetes.plugins.modules import kubelet_endpoint

PROXY, RUNTIME = "unix:///var/run/cri-resmgr/cri-resmgr.sock", "unix:///run/containerd/containerd.sock"


class Node(KubeClient):
    """The kubelet's way to its own Node, which carries kubeadm's annotation."""

    def __init__(self) -> None:
        super().__init__(Access("https://10.0.0.1:6443", "a test"))
        self.annotation = PROXY
        self.away = False

    def _see(self) -> None:
        if self.away:
            raise ApiError("no answer")

    def post(self, path: str, body: Any, **_options: Any) -> Any:
        self._see()
        assert path == _kubelet_identity._REVIEWS
        return {"status": {"userInfo": {"username": "system:node:w1"}}}

    def get(self, path: str, query: Any = None) -> Any:
        self._see()
        assert path == "/api/v1/nodes/w1"
        return {"metadata": {"annotations": {ANNOTATION: self.annotation}}}

    def patch(self, path: str, body: Any, *_options: Any, **_more: Any) -> Any:
        self.annotation = body["metadata"]["annotations"][ANNOTATION]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setattr(kubelet_endpoint.Api, "client", lambda _api: made)
    return made


@pytest.mark.parametrize("wait_ready", [True, False])
def test_no_annotation_is_left_on_a_proxy_that_goes_away(node: Node, wait_ready: bool) -> None:
    api = kubelet_endpoint.Api("", wait_ready, direct=True)
    assert api.annotate(RUNTIME, check=True)
    assert node.annotation == PROXY
    assert api.annotate(RUNTIME, check=False)
    assert (node.annotation, api.left) == (RUNTIME, "")
    assert not api.annotate(RUNTIME, check=False)


def test_whoever_does_not_wait_for_the_api_is_warned_where_it_is_away(node: Node) -> None:
    node.away = True
    api = kubelet_endpoint.Api("", wanted=False, direct=True)
    assert not api.annotate(RUNTIME, check=False)
    assert "kubeadm's annotation was not set: no answer" in api.left
    with pytest.raises(SwitchError, match="annotation was not set"):
        kubelet_endpoint.Api("", wanted=True, direct=True).annotate(RUNTIME, check=False)


def test_the_api_is_not_asked_on_the_way_to_the_proxy_if_nobody_wants_it(node: Node) -> None:
    node.away = True
    api = kubelet_endpoint.Api("", wanted=False, direct=False)
    assert (api.annotate(PROXY, check=False), api.left) == (False, "")
