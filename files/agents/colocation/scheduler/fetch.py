# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One GET over HTTP or HTTPS with a deadline for the whole of it, and a most for what comes back."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


class FetchError(Exception):
    """No answer, or none that can be used."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to ask and how."""

    url: str
    headers: Mapping[str, str]
    context: ssl.SSLContext | None = None  # for https
    server_name: str = ""  # in the certificate, if it is not the host
    # called with the server's certificate (DER) before anything is sent; says what is wrong with it
    refuse: Callable[[bytes], str | None] | None = None


def fetch(target: Target, seconds: float, most: int) -> bytes:
    """The body of the answer 200."""
    end = time.monotonic() + seconds
    place = urlsplit(target.url)
    connection = _connection(target, place.hostname or "", place.port, seconds)
    shown = f"{place.scheme}://{place.netloc}"
    try:
        connection.connect()
        _check(connection, target)
        path = f"{place.path}?{place.query}" if place.query else place.path
        connection.request("GET", path, headers={"User-Agent": "colocation-scheduler", **target.headers})
        sock = connection.sock  # the connection forgets it where the server is to close it
        sock.settimeout(_left(end))
        with connection.getresponse() as answer:
            body = _read(sock, answer, end, most)
    except TimeoutError:
        raise FetchError(f"{shown} did not answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as problem:
        raise NotVerified(f"{shown}: its certificate is not to be believed: {problem.verify_message}") from None
    except (OSError, http.client.HTTPException) as problem:
        raise FetchError(f"{shown} can't be asked: {problem or type(problem).__name__}") from None
    finally:
        connection.close()
    if answer.status != 200:
        said = body[:200].decode(errors="replace").strip()
        raise FetchError(f"{shown}{place.path} answers {answer.status} {answer.reason}: {said}")
    return body


class NotVerified(FetchError):
    """The server's certificate is not signed by who should have, or is another's."""


def _connection(target: Target, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if target.context is None:
        return http.client.HTTPConnection(host, port, timeout=seconds)
    return _Named(host, port, timeout=seconds, context=target.context, name=target.server_name or host)


class _Named(http.client.HTTPSConnection):
    """The certificate may carry another name than the host."""

    def __init__(self, host: str, port: int | None, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls, self._name = context, name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _check(connection: http.client.HTTPConnection, target: Target) -> None:
    if target.refuse is None:
        return
    shown = connection.sock.getpeercert(binary_form=True) if isinstance(connection.sock, ssl.SSLSocket) else b""
    if wrong := target.refuse(shown or b""):
        raise NotVerified(wrong)


def _read(sock: socket.socket, answer: http.client.HTTPResponse, end: float, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        sock.settimeout(_left(end))
        chunk = answer.read1(1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise FetchError(f"the answer is larger than {most} bytes")


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
