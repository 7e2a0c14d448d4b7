# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the API server says to an identity: whom it takes it for, and what that one may do.

Asked from the node, before anything is written, so that a failure leaves what stood before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import RENEWERS
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import KUBELET, MINTED
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_rights import EVERYTHING, questions, review
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import user_name

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said to an identity."""

    user: str
    missing: tuple[str, ...]  # rights, in words
    everything: bool


def ask(access: Access, node: str, fallback_user: str, timeout: float, patience: float = 0) -> Answer:
    """Who the API takes an identity for, and what it may do; ApiError where it does not take it.

    `patience`: seconds to wait for rights that were given a moment ago; the API server learns of them from a watch.
    """
    end = time.monotonic() + patience
    with KubeClient(access, timeout) as api:
        user = user_name(api) or fallback_user
        missing = _missing(api, node)
        while missing and time.monotonic() < end:
            time.sleep(0.2)
            missing = _missing(api, node)
        return Answer(user, missing, _allowed(api, review(EVERYTHING)))


def _missing(api: KubeClient, node: str) -> tuple[str, ...]:
    return tuple(words for words, body in questions(node).items() if not _allowed(api, body))


def _allowed(api: KubeClient, body: dict[str, Any]) -> bool:
    return bool(api.post(REVIEWS, body).get("status", {}).get("allowed"))


def refusal(problem: ApiError, source: str, server: str) -> str:
    """Why the API does not take an identity, and what to do."""
    if problem.status == 401:
        advice = "The API server does not take them any more, or never did. " + RENEWERS[source]
    elif problem.status == 0:
        advice = (
            f"See that the node reaches {server} and that its certificate is right; credentials_server names another "
            "address, credentials_validate=false writes them untried"
        )
    else:
        advice = "The API server has trouble of its own; see its log"
    return f"The credentials (source {source}) were tried from the node: {problem}. {advice}. What stood before stays."


def lacking(answer: Answer, source: str) -> str:
    """Which rights an identity lacks."""
    if source == KUBELET:
        advice = "The API server should authorize with Node,RBAC; or take credentials_source=minted"
    elif source == MINTED:
        advice = "Somebody changed the account's role; the next run with the tag credentials mends it"
    else:
        advice = "Give it these rights (docs/security-model.md has them as a ClusterRole)"
    return f"{answer.user} may not: {'; '.join(answer.missing)}. {advice}. What stood before stays."


def accepted(access: Access, timeout: float) -> tuple[bool | None, str]:
    """Whether the API takes an identity (None: it did not answer), and what it said against it."""
    try:
        with KubeClient(access, timeout) as api:
            if not user_name(api):
                api.get("/version")
    except ApiError as problem:
        return (False if problem.status == 401 else None), str(problem)
    return True, ""
