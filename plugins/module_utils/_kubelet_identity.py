# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Talking to the API server as the node's own kubelet: with the identity in kubelet.conf, and nothing more.

That identity is rotated by the kubelet and may see its own Node, which is all that is asked for here.
"""

from __future__ import annotations

import os
import platform

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import CredentialsError, validity
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import choose_access, read_kubeconfig
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import KUBECONFIG

_USER_PREFIX = "system:node:"
_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def read_identity(path: str = KUBECONFIG) -> Access:
    """The way to the API and the certificate that kubelet.conf names, or an error that says what is missing."""
    if not os.path.exists(path):
        raise AccessError(f"{path} is not there; the node was never joined, or lost it")
    identity = choose_access([read_kubeconfig(path)])
    if not identity.server.startswith("https://"):
        raise AccessError(f"{path} names no API server with https, but {identity.server!r}")
    if not identity.certificate:
        raise AccessError(f"{path} has no client certificate")
    return identity


def node_name(client: KubeClient) -> str:
    """The name in the certificate, as the API server reads it, or as we do where it can't tell; else the host's."""
    return node_of(user_name(client)) or certified_name(client.access) or platform.node().lower()


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
