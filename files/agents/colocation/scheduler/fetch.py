# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One GET over HTTP or HTTPS with a deadline for the whole of it, and a most for what comes back."""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any
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
    shown = "/".join(target.url.split("/", 3)[:3])
    try:
        answer, body = _ask(target, time.monotonic() + seconds, most)
    except TimeoutError:
        raise FetchError(f"{shown} did not answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as problem:
        raise NotVerified(f"{shown}: its certificate is not to be believed: {problem.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as problem:  # ValueError: an address or header that is none
        raise FetchError(f"{shown} can't be asked: {problem or type(problem).__name__}") from None
    if answer.status != 200:
        said = body[:200].decode(errors="replace").strip()
        raise BadStatus(f"{target.url.partition('?')[0]} answers {answer.status} {answer.reason}: {said}")
    return body


def _ask(target: Target, end: float, most: int) -> tuple[http.client.HTTPResponse, bytes]:
    place = urlsplit(target.url)
    with contextlib.closing(_connection(target, place.hostname or "", place.port, end)) as connection:
        connection.connect()
        _check(connection, target)
        path = f"{place.path}?{place.query}" if place.query else place.path
        connection.sock.settimeout(_left(end))
        connection.request("GET", path, headers={"User-Agent": "colocation-scheduler", **target.headers})
        with connection.getresponse() as answer:
            return answer, _read(answer, most)


class BadStatus(FetchError):
    """The server does not answer with what was asked for, but says why."""


class NotVerified(FetchError):
    """The server's certificate is not signed by who should have, or is another's."""


def _connection(target: Target, host: str, port: int | None, end: float) -> http.client.HTTPConnection:
    made: http.client.HTTPConnection
    if target.context is None:
        made = http.client.HTTPConnection(host, port, timeout=_left(end))
    else:
        made = _Named(host, port, end, context=target.context, name=target.server_name or host)
    made.response_class = functools.partial(_Response, end)  # type: ignore[assignment]
    return made


class _Named(http.client.HTTPSConnection):
    """The certificate may carry another name than the host."""

    def __init__(self, host: str, port: int | None, end: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=_left(end), context=context)
        self._tls, self._name, self._end = context, name, end

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock.settimeout(_left(self._end))
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class _Response(http.client.HTTPResponse):
    """An answer whose every piece, head and body, comes before the end or not at all: a socket's own timeout begins
    anew with each byte."""

    def __init__(self, end: float, sock: socket.socket, *arguments: Any, **more: Any) -> None:
        super().__init__(sock, *arguments, **more)
        self.fp = io.BufferedReader(_InTime(sock, self.fp, end))


class _InTime(io.RawIOBase):
    """What a socket brings until the end."""

    def __init__(self, sock: socket.socket, stream: IO[bytes], end: float) -> None:
        self._sock, self._stream, self._end = sock, stream, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._end))
        count: int = self._stream.readinto1(buffer)  # type: ignore[attr-defined]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _check(connection: http.client.HTTPConnection, target: Target) -> None:
    if target.refuse is None:
        return
    shown = connection.sock.getpeercert(binary_form=True) if isinstance(connection.sock, ssl.SSLSocket) else b""
    if wrong := target.refuse(shown or b""):
        raise NotVerified(wrong)


def _read(answer: http.client.HTTPResponse, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := answer.read1(1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise FetchError(f"the answer is larger than {most} bytes")
    return b"".join(chunks)


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
