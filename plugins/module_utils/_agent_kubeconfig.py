# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agents' kubeconfig as a text: one cluster, one user, one context, which is named by where the identity came from.

The agents know certificates and tokens, checked TLS, and no more (files/agents/colocation/common/kube_access.py).
Whatever else a kubeconfig can say is refused here by name, on the controller's side, where a person reads the error.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import (
    Access,
    AccessError,
    Material,
    split_server,
)

KUBELET, MINTED, ADMIN, FILE = "kubelet", "minted", "admin", "file"
SOURCES = (KUBELET, MINTED, ADMIN, FILE)
_HEAD = (
    "# Written by colocation.kubernetes (role credentials) for the agents of this node; its next run writes it again."
)


def require_usable(access: Access) -> None:
    """See that the agents can use it; the error says what they can't, and what to do."""
    scheme = split_server(access.server)[0]
    other = "; take another credentials_source (minted, or file with a certificate or token)"
    if scheme != "https" or "://" not in access.server:
        raise AccessError(f"{access.source}: the server {access.server!r} is not an https:// address")
    if not access.verify:
        raise AccessError(f"{access.source} does not check the server's certificate; name its authority instead")
    if access.exec_plugin is not None:
        raise AccessError(
            f"{access.source} gets its credentials from the program {access.exec_plugin.command}, which the agents "
            f"don't run{other}"
        )
    if access.username or access.password:
        raise AccessError(f"{access.source} has a user name and password, which Kubernetes does not take any more")
    if access.proxy is not None:
        raise AccessError(f"{access.source} goes through a proxy, which the agents don't{other}")
    if access.act_as.user or access.act_as.uid or access.act_as.groups or access.act_as.extra:
        raise AccessError(f"{access.source} impersonates another user, which the agents don't{other}")
    if not access.certificate and not access.token:
        raise AccessError(f"{access.source}: its user has neither a client certificate nor a token")
    if bool(access.certificate) != bool(access.key):
        raise AccessError(f"{access.source}: a client certificate and its key belong together; one is missing")


def embedded(access: Access, read: Callable[[Material], str]) -> Access:
    """The same with the content of every file that it names, so that it can leave its machine."""

    def take(material: Material) -> Material:
        return Material(content=read(material)) if material.file else material

    return replace(
        access,
        ca=take(access.ca),
        certificate=take(access.certificate),
        key=take(access.key),
        token=take(access.token),
    )


def has_secret(access: Access) -> bool:
    """Whether a secret stands in the kubeconfig itself, and not in a file that it names."""
    return bool(access.key.content or (access.token.content and not access.token.file))


def render(access: Access, source: str) -> str:
    """The file's text."""
    cluster = {"server": access.server, "tls-server-name": access.server_name}
    cluster |= _named("certificate-authority", access.ca)
    user = _named("client-certificate", access.certificate) | _named("client-key", access.key)
    if access.token.file:
        user["tokenFile"] = access.token.file
    elif access.token:
        user["token"] = access.token.content.strip()
    return "\n".join(
        [
            _HEAD,
            "apiVersion: v1",
            "kind: Config",
            "clusters:",
            "  - name: cluster",
            "    cluster:",
            *_lines(cluster),
            "users:",
            "  - name: agents",
            "    user:",
            *_lines(user),
            "contexts:",
            f"  - name: {source}",
            "    context:",
            "      cluster: cluster",
            "      user: agents",
            f"current-context: {source}",
            "",
        ]
    )


def _named(name: str, material: Material) -> dict[str, str]:
    if material.file:
        return {name: material.file}
    if material.content:
        return {f"{name}-data": base64.b64encode(material.content.encode()).decode()}
    return {}


def _lines(section: dict[str, str]) -> list[str]:
    """A mapping's lines; JSON's quotes are YAML's."""
    return [f"      {name}: {json.dumps(value)}" for name, value in section.items() if value]
