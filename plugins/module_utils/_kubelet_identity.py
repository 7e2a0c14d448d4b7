# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Talking to the API server as the node's own kubelet: with the identity in kubelet.conf, and nothing more.

That identity is rotated by the kubelet and may see its own Node, which is all that is asked for here.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import tempfile
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    KUBECONFIG,
    decoded,
    kubeconfig_value,
    parse_kubeconfig,
)

_USER_PREFIX = "system:node:"


class IdentityError(Exception):
    """The API can't be asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What kubelet.conf says: where the API is and with what the kubelet proves who it is."""

    server: str
    ca_pem: str
    ca_file: str
    certificate: str  # a path; empty: in the file itself
    key: str
    certificate_data: str = ""
    key_data: str = ""


def parse_identity(text: str) -> Identity:
    """Read a kubeconfig as kubeadm writes it: one cluster, one user with a client certificate."""
    server, ca_data, ca_file = parse_kubeconfig(text)
    return Identity(
        server,
        decoded(ca_data),
        ca_file,
        kubeconfig_value(text, "client-certificate"),
        kubeconfig_value(text, "client-key"),
        decoded(kubeconfig_value(text, "client-certificate-data")),
        decoded(kubeconfig_value(text, "client-key-data")),
    )


def read_identity(path: str = KUBECONFIG) -> Identity:
    """The identity in a file, or an error that says what is missing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            identity = parse_identity(file.read())
    except OSError as problem:
        raise IdentityError(f"{path}: {problem.strerror}; the node was never joined, or lost it") from None
    if not identity.server.startswith("https://"):
        raise IdentityError(f"{path} names no API server with https, but {identity.server!r}")
    if not (identity.certificate or identity.certificate_data):
        raise IdentityError(f"{path} has no client certificate")
    return identity


class NodeApi:
    """Requests with the kubelet's identity; each opens a connection of its own, for certificates are rotated."""

    def __init__(self, identity: Identity, timeout: float = 10) -> None:
        self.identity = identity
        self.timeout = timeout

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path)

    def node_name(self, fallback: str) -> str:
        """The name in the certificate, as the API server reads it; `fallback` where it can't tell (before 1.28)."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            answer = self._ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        except IdentityError as problem:
            if " 404 " in f"{problem} ":
                return fallback
            raise
        user = str(answer.get("status", {}).get("userInfo", {}).get("username", ""))
        return user.removeprefix(_USER_PREFIX) if user.startswith(_USER_PREFIX) else fallback

    def _ask(self, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        place = urlsplit(self.identity.server)
        try:
            connection = http.client.HTTPSConnection(
                place.hostname or "", place.port or 443, timeout=self.timeout, context=self._context()
            )
            try:
                content = None if body is None else json.dumps(body)
                headers = {"Accept": "application/json", "Content-Type": "application/json"}
                connection.request(verb, path, content, headers)
                answer = connection.getresponse()
                text = answer.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise IdentityError(f"{self.identity.server} does not answer: {problem}") from None
        return _parsed(self.identity.server, path, answer.status, text)

    def _context(self) -> ssl.SSLContext:
        identity = self.identity
        context = ssl.create_default_context(cafile=identity.ca_file or None, cadata=identity.ca_pem or None)
        if not identity.certificate_data:
            context.load_cert_chain(identity.certificate, identity.key or None)
            return context
        handle, path = tempfile.mkstemp()  # ssl reads certificates from files only; this one is ours alone, and short
        try:
            with os.fdopen(handle, "w") as file:
                file.write(identity.certificate_data + "\n" + identity.key_data)
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
        return context


def _parsed(server: str, path: str, status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if status not in (200, 201):
        message = answer.get("message", "") if isinstance(answer, dict) else ""
        raise IdentityError(f"{server}{path}: {status} {message}".rstrip())
    if not isinstance(answer, dict):
        raise IdentityError(f"{server}{path}: the answer is not a JSON object")
    return answer
