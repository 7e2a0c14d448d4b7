# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The way to a Kubernetes API and the proof of who we are, as values. Nothing here opens a file or a connection.

What is secret never stands in a `repr`; `secrets` lists it, so that a module can hide it from all that it prints.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

LEAST_SECRET = 12  # characters of an exec program's variable
DEFAULT_PORTS = {"https": 443, "http": 80}


class AccessError(Exception):
    """There is no way to the API with this; the text says what is missing and what to do, never a secret."""


class NotKnownHere(AccessError):
    """Nothing may be wrong with it: it is more than is known here."""


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate, a key or a token: the path of a file, or the content itself."""

    file: str = ""
    content: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.content)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials, as a kubeconfig's `exec` names it."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster_info: Mapping[str, object] | None = None  # told to the program if it wants to know
    install_hint: str = ""
    surroundings: Mapping[str, str] | None = field(default=None, repr=False)  # what `environment` adds to; None: ours


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Who to act as."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy through which the API is reached."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)  # "user:password"


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that a client needs to know."""

    server: str  # https://host:port/prefix
    source: str  # where all this was found, in words
    ca: Material = Material()
    verify: bool = True
    server_name: str = ""  # in the server's certificate, if it is not the host
    certificate: Material = Material()
    key: Material = Material()
    token: Material = Material()
    username: str = ""
    password: str = field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    proxy: Proxy | None = None
    act_as: Impersonation = Impersonation()

    def secrets(self) -> Iterator[str]:
        """What must not be printed, in each shape in which it came."""
        for material in (self.key, self.token):
            if material.content:
                yield material.content
                yield base64.b64encode(material.content.encode()).decode()
        if self.password:
            yield self.password
        if self.proxy and self.proxy.authorization:
            yield self.proxy.authorization
            yield self.proxy.authorization.partition(":")[2]
        if self.exec_plugin:
            # A short one, AWS_PROFILE=dev, is no secret, and hiding it would riddle the output.
            yield from (value for value in self.exec_plugin.environment.values() if len(value) >= LEAST_SECRET)


def split_server(server: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path prefix of the API server's address."""
    try:
        place = urlsplit(server if "://" in server else f"https://{server}")
        port = place.port
    except ValueError:
        raise AccessError(f"the API server's address {server!r} is none; write https://host:port") from None
    if place.scheme not in DEFAULT_PORTS or not place.hostname or place.username or place.query or place.fragment:
        raise AccessError(f"the API server's address {server!r} is none; write https://host:port")
    return place.scheme, place.hostname, port or DEFAULT_PORTS[place.scheme], place.path.rstrip("/")


def parse_proxy(address: str, authorization: str = "") -> Proxy:
    """`http://[user:password@]host:port`; other kinds are refused by name."""
    try:
        place = urlsplit(address if "://" in address else f"http://{address}")
        port = place.port
    except ValueError:
        raise AccessError("the proxy's address is none; write http://host:port") from None
    if place.scheme != "http":
        raise NotKnownHere(f"a proxy of the kind {place.scheme!r} is not known here; only http:// is")
    if not place.hostname:
        raise AccessError("the proxy's address names no host; write http://host:port")
    if not authorization and place.username:
        authorization = f"{unquote(place.username)}:{unquote(place.password or '')}"
    return Proxy(place.hostname, port or 80, authorization)


def goes_direct(host: str, no_proxy: str) -> bool:
    """Whether a host is on the list of those that need no proxy: names, domains, addresses, networks, or `*`."""
    wanted = host.lower().rstrip(".")
    for entry in (word.strip().lower() for word in no_proxy.split(",")):
        domain = entry.lstrip(".").rstrip(".")
        if entry == "*" or (domain and (wanted == domain or wanted.endswith(f".{domain}"))):
            return True
        try:
            if "/" in entry and ipaddress.ip_address(wanted) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def decode_text(what: str, data: str) -> str:
    """A text in base64, as kubeconfigs embed it; `what` names it in the error."""
    try:
        return base64.b64decode("".join(data.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise AccessError(f"{what} is not a text in base64") from None
