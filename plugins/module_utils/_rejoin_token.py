# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How a node gets in again: a bootstrap token with a short life, the cluster's address, and the hash of its authority.

The token is a Secret that we make through the API; kubeadm on the node proves with it that the cluster is the right one
(the hash is of the authority's public key) and asks for the kubelet's certificate. The configuration that holds it is a
file for root alone in memory, never an argument, which everybody could read.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
from collections.abc import Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError, decode_text
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import parse_document
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import LABELS, MANAGER
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import (
    ValidityError,
    iso,
    public_key_info,
)

OPERATION = "colocation.kubernetes/operation"  # the token's label
_SECRETS = api_path("api", "v1", "namespaces", "kube-system", "secrets")  # the only place where tokens count
_LETTERS = string.ascii_lowercase + string.digits
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
NEW_CONFIGURATION = (1, 31)  # kubeadm that knows v1beta4; v1beta3 is gone from 1.37 on


def make_token(client: KubeClient, operation: str, lifetime: int, now: float) -> str:
    """A token that ends after so many seconds; those of the operation's earlier runs go."""
    drop_tokens(client, operation)
    token_id, secret = _random(6), _random(16)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": f"bootstrap-token-{token_id}", "labels": {**LABELS, OPERATION: operation}},
        "stringData": {
            "token-id": token_id,
            "token-secret": secret,
            "expiration": iso(now + lifetime),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            "description": "colocation.kubernetes: for one node to rejoin",
        },
    }
    client.post(_SECRETS, body, {"fieldManager": MANAGER})
    return f"{token_id}.{secret}"


def drop_tokens(client: KubeClient, operation: str) -> bool:
    """Have none of this operation; True when there was one."""
    found = client.items(_SECRETS, label_selector=f"{OPERATION}={operation}")
    for one in found:
        try:
            client.delete(_SECRETS + api_path(one["metadata"]["name"]))
        except ApiError as error:
            if error.status != 404:
                raise
    return bool(found)


def read_cluster_info(client: KubeClient) -> tuple[str, str]:
    """Address and authority as kubeadm's nodes learn them; read over our own proven connection."""
    path = api_path("api", "v1", "namespaces", "kube-public", "configmaps", "cluster-info")
    try:
        text = (client.get(path).get("data") or {}).get("kubeconfig", "")
        cluster = parse_document(text, "the ConfigMap kube-public/cluster-info")["clusters"][0]["cluster"]
        authority = decode_text("certificate-authority-data", str(cluster["certificate-authority-data"]))
        return str(cluster["server"]), authority
    except ApiError as error:
        if error.status != 404:
            raise
        raise RejoinRefused(
            "the cluster has no ConfigMap kube-public/cluster-info, by which kubeadm finds it; a control plane that "
            "kubeadm made has one (kubeadm init phase bootstrap-token makes it)"
        ) from None
    except (AccessError, KeyError, IndexError, TypeError) as problem:
        said = str(problem) if isinstance(problem, AccessError) else "something is missing in it"
        raise RejoinRefused(f"kube-public/cluster-info does not name a server with its authority: {said}") from None


def pins(authority: str) -> list[str]:
    """`sha256:…` of the public key of each certificate in a PEM text, as kubeadm compares them."""
    try:
        keys = [public_key_info(pem) for pem in _CERTIFICATE.findall(authority)]
    except ValidityError as problem:
        raise RejoinRefused(f"the cluster's authority in kube-public/cluster-info can't be read: {problem}") from None
    if not keys:
        raise RejoinRefused("kube-public/cluster-info has no certificate of the cluster's authority")
    return [f"sha256:{hashlib.sha256(key).hexdigest()}" for key in keys]


def endpoint_of(server: str) -> str:
    """`host:port` of an address."""
    found = re.fullmatch(r"https://(\[[0-9A-Fa-f:.]+\]|[^/:\[\]]+)(?::(\d+))?/?", server)
    if found is None:
        raise RejoinRefused(f"kubeadm joins at https://host:port only, and the cluster names {server!r}")
    return f"{found[1]}:{found[2] or 443}"


def join_configuration(
    version: tuple[int, int], node: str, socket: str, way: Mapping[str, Any], flags: Mapping[str, Any]
) -> str:
    """kubeadm's JoinConfiguration, as JSON, which is YAML too. `way` has endpoint, pins, token."""
    api = "v1beta4" if version >= NEW_CONFIGURATION else "v1beta3"
    registration: dict[str, Any] = {"name": node, "criSocket": f"unix://{socket}"}
    if flags:
        words = {str(name): str(value) for name, value in flags.items()}
        named = [{"name": name, "value": value} for name, value in words.items()]
        registration["kubeletExtraArgs"] = named if version >= NEW_CONFIGURATION else words
    document = {
        "apiVersion": f"kubeadm.k8s.io/{api}",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": way["endpoint"],
                "caCertHashes": list(way["pins"]),
                "token": way["token"],
            }
        },
        "nodeRegistration": registration,
    }
    return json.dumps(document) + "\n"


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _dummy in range(length))
