# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Talking to the API server as the node's own kubelet: with the identity in its kubeconfig, and nothing more.

That is a certificate, a token, or what a program prints; it may see its own Node, which is all that is asked for here.
"""

from __future__ import annotations

import os
import platform

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import CredentialsError, validity
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import read_kubeconfig
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    environment_of,
    find_process,
    identity_in,
    kubelets_kubeconfig,
    read_flags,
)

_USER_PREFIX = "system:node:"
_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def read_identity(path: str | None = None) -> Access:
    """The way to the API and the identity of the kubelet's kubeconfig, or of `path`; an error says what is missing."""
    path = path or kubelets_kubeconfig()
    if not os.path.exists(path):
        raise AccessError(f"{path} is not there; the node was never joined, or lost it")
    return identity_in(read_kubeconfig(path), lambda: environment_of("/", find_process("/", "kubelet")))


def node_name(client: KubeClient) -> str:
    """The name by which the API server knows us, or that in our certificate where it can't tell; else the kubelet's."""
    known = node_of(user_name(client)) or certified_name(client.access)
    return known or told_name(read_flags("/", find_process("/", "kubelet")).get("hostname-override", ""))


def told_name(override: str) -> str:
    """The name that the kubelet was told, or takes from the host."""
    return (override or platform.node()).strip().lower()


def certified_name(access: Access) -> str:
    """The node in a kubelet's certificate; empty where there is none to read."""
    try:
        found = validity(access)
    except (AccessError, CredentialsError):
        return ""
    return node_of(found.user) if found else ""


def user_name(client: KubeClient) -> str:
    """For whom the API server takes us; empty where it can't tell. Before 1.28 it has no such review: to a kubelet, and
    to all who may not do everything, what is not there is forbidden.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = client.post(_REVIEWS, review)
    except ApiError as problem:
        if problem.status in (403, 404):
            return ""
        raise
    return str(answer.get("status", {}).get("userInfo", {}).get("username", ""))


def node_of(user: str) -> str:
    """The node whose kubelet a user is, or nothing."""
    return user.removeprefix(_USER_PREFIX) if user.startswith(_USER_PREFIX) else ""
