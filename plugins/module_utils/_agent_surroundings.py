# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the agents' identity is found by on a node: the kubelet's kubeconfig and certificates, and the Node's name."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import (
    CERTIFICATES,
    kubelets_identity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import (
    certified_name,
    node_of,
    read_identity,
    told_name,
    user_name,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    find_process,
    kubeconfig_of,
    read_flags,
)

ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    kubeconfig: str  # the kubelet's
    certificates: str  # the directory where it keeps what it rotates
    node: str  # the Node's name in the API


def look_around(root: str, kubeconfig: str | None, node: str | None) -> Surroundings:
    """What the running kubelet was told, or its files say; what the caller names comes first."""
    flags = read_flags(root, find_process(root, "kubelet"))
    path = kubeconfig or kubeconfig_of(flags)
    certificates = flags.get("cert-dir", CERTIFICATES)
    name = node or _certified_name(path, certificates) or _known_name(path)
    return Surroundings(path, certificates, name or told_name(flags.get("hostname-override", "")))


def _certified_name(kubeconfig: str, certificates: str) -> str:
    try:
        return certified_name(kubelets_identity(kubeconfig, certificates).access)
    except AccessError:
        return ""


def _known_name(kubeconfig: str) -> str:
    """As the API server has it, for a kubelet with a token or a program."""
    try:
        with KubeClient(read_identity(kubeconfig), timeout=ASK_SECONDS, tries=1) as api:
            return node_of(user_name(api))
    except (AccessError, ApiError):
        return ""
