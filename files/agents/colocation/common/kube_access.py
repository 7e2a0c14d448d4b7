# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How to reach the Kubernetes API and prove who one is: a kubeconfig's text or a pod's own account, as one value.

Only what agents meet: a certificate or a token, in the file or beside it. Programs that print credentials (`exec`)
would have to be on the node, and passwords are gone from Kubernetes; both are refused by name.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from colocation.common.yaml_tree import Tree, YamlProblem, parse

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_REFUSED = ("exec", "auth-provider", "username", "password")


class AccessError(Exception):
    """There is no way to the API with this; the text says what is missing and never holds a secret."""


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate or key: a file's path, or the content itself. The content is never shown."""

    file: str = ""
    content: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.content)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is and with what to prove who we are."""

    host: str
    port: int
    ca: Material
    certificate: Material = Material()
    key: Material = Material()
    token: Material = Material()
    server_name: str = ""  # in the server's certificate, if it is not the host
    prefix: str = ""  # of every path, where the API is behind a proxy
    source: str = ""  # the kubeconfig that said all this

    @property
    def server(self) -> str:
        """The address as humans write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.prefix}"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that may be replaced while we run."""
        named = (self.source, *(m.file for m in (self.ca, self.certificate, self.key, self.token)))
        return tuple(filter(None, named))


def from_kubeconfig(text: str, file: str) -> Access:
    """What the current context of a kubeconfig says; paths in it are relative to its own directory."""
    try:
        document = _plain(parse(text))
    except YamlProblem as problem:
        raise AccessError(f"{file}:{problem}") from None
    context = _named(document, "contexts", "context", _text(document, "current-context"), file)
    cluster = _named(document, "clusters", "cluster", _text(context, "cluster"), file)
    user = _named(document, "users", "user", _text(context, "user"), file)
    if _text(cluster, "insecure-skip-tls-verify").lower() == "true":
        raise AccessError(f"{file} turns off the check of the server's certificate; name its authority instead")
    for name in _REFUSED:
        if name in user:
            raise AccessError(f"{file} has a user with {name!r}, which agents can't use; give a certificate or a token")
    host, port, prefix = _address(_text(cluster, "server"), file)
    access = Access(
        host,
        port,
        _material(cluster, "certificate-authority", file),
        _material(user, "client-certificate", file),
        _material(user, "client-key", file),
        Material(_beside(file, _text(user, "tokenFile")), "" if "tokenFile" in user else _text(user, "token")),
        _text(cluster, "tls-server-name"),
        prefix,
        os.path.abspath(file),
    )
    if not access.certificate and not access.token:
        raise AccessError(f"{file}: its user has neither a client certificate nor a token")
    if bool(access.certificate) != bool(access.key):
        raise AccessError(f"{file}: a client certificate and its key belong together; one is missing")
    return access


def from_pod(environ: Mapping[str, str], directory: str = ACCOUNT) -> Access:
    """The account that Kubernetes mounts into a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not port.isdigit():
        raise AccessError("this is no pod: KUBERNETES_SERVICE_HOST is not set")
    ca, token = (Material(os.path.join(directory, name)) for name in ("ca.crt", "token"))
    return Access(host, int(port), ca, token=token)


def _address(server: str, file: str) -> tuple[str, int, str]:
    try:
        place = urlsplit(server)
        port = place.port or 443
    except ValueError:
        raise AccessError(f"{file} names the server {server!r}, which is no address") from None
    if place.scheme != "https" or not place.hostname:
        raise AccessError(f"{file} names no API server with https, but {server!r}")
    return place.hostname, port, place.path.rstrip("/")


def _named(document: Mapping[str, Any], listed: str, what: str, name: str, file: str) -> Mapping[str, Any]:
    entries = document.get(listed)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(what), dict):
            found: dict[str, Any] = entry[what]
            return found
    raise AccessError(f"{file} has no {what} named {name!r}")


def _material(section: Mapping[str, Any], name: str, file: str) -> Material:
    data = _text(section, f"{name}-data")
    if not data:
        return Material(_beside(file, _text(section, name)))
    try:
        return Material(content=base64.b64decode("".join(data.split()), validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise AccessError(f"{file}: {name}-data is not base64 of a text") from None


def _beside(file: str, path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(file)), path) if path else ""


def _text(section: Mapping[str, Any], name: str) -> str:
    value = section.get(name)
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _plain(tree: Tree) -> dict[str, Any]:
    value = _value(tree)
    return value if isinstance(value, dict) else {}


def _value(tree: Tree) -> Any:
    if isinstance(tree.value, dict):
        return {name: _value(entry.tree) for name, entry in tree.value.items()}
    return [_value(item) for item in tree.value] if isinstance(tree.value, list) else tree.value
