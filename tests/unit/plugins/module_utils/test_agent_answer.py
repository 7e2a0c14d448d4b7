# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is said when the API does not take an identity. Real answers are in tests/contract/credentials."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_answer import Answer, lacking, refusal
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError

SERVER = "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("status", "source", "advice"),
    [
        (401, "minted", "or never did. The next run with the tag credentials mints another"),
        (401, "admin", "or never did. Nobody renews it by itself: kubeadm certs renew"),
        (0, "kubelet", f"See that the node reaches {SERVER}"),
        (503, "kubelet", "trouble of its own"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, source: str, advice: str) -> None:
    said = refusal(ApiError("POST x: what the API said", status), source, SERVER)
    assert said.startswith(f"The credentials (source {source}) were tried from the node: POST x: what the API said. ")
    assert advice in said
    assert said.endswith("What stood before stays.")


@pytest.mark.parametrize(
    ("source", "advice"),
    [("kubelet", "Node,RBAC"), ("minted", "mends it"), ("file", "docs/security-model.md"), ("admin", "ClusterRole")],
)
def test_missing_rights_are_named(source: str, advice: str) -> None:
    said = lacking(Answer("me", ("get nodes (to x)", "create events (to y)"), False), source)
    assert said.startswith("me may not: get nodes (to x); create events (to y). ")
    assert advice in said
