# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A small client of the Kubernetes API: JSON over HTTPS with the standard library.

Reads are tried again after a failed connection, 429 or 5xx. A write is tried again only where the connection could not
be made: once it is sent nobody can tell whether it was done, and the 429 of an eviction is an answer. Credentials are
read again when one of their files was replaced, and once more after a 401.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from colocation.common.kube_access import Access, AccessError, Material, from_kubeconfig
from colocation.common.retry import Backoff

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
MOST_ANSWER = 256 << 20
MOST_EVENT = 16 << 20
_AGAIN = (0, 429, 500, 502, 503, 504)
Document = dict[str, Any]


class ApiError(Exception):
    """The API said no, or nothing. `status` is 0 where no answer came."""

    def __init__(self, what: str, status: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        self.status = status
        self.reason = reason  # the API's word: NotFound, Conflict, Expired, TooManyRequests …
        self.retry_after = retry_after
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Event:
    """A change that a watch saw: ADDED, MODIFIED, DELETED or BOOKMARK."""

    kind: str
    object: Document


class _NotSent(ApiError):
    """Nothing was asked yet: trying again can't do a thing twice."""


class KubeApi:
    """Requests with the credentials that `find_access` finds; each has its own connection, so any thread may ask."""

    def __init__(
        self,
        find_access: Callable[[], Access],
        timeout: float = 10,
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._credentials = _Credentials(find_access)
        self._timeout = timeout
        self._backoff = backoff or Backoff()
        self._sleep = sleep

    def get(self, path: str, **query: str) -> Document:
        """An object or a list."""
        return self._ask("GET", _with(path, query), None, "")

    def post(self, path: str, body: Document) -> Document:
        """Make an object, or ask for a review or an eviction."""
        return self._ask("POST", path, body, "application/json")

    def patch(self, path: str, body: Document | list[Document], kind: str = STRATEGIC_PATCH) -> Document:
        """Change parts of an object."""
        return self._ask("PATCH", path, body, kind)

    def watch(self, path: str, version: str, seconds: int = 300, **query: str) -> Iterator[Event]:
        """Changes since a list's resourceVersion, until the server ends it; ApiError with 410 means: list again."""
        query |= {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(seconds)
        try:
            with self._asking("GET", _with(path, query), None, "", seconds + self._timeout) as answer:
                if answer.status != 200:
                    raise _refusal(self._server, "GET", path, answer, answer.read(MOST_ANSWER))
                yield from _events(answer, f"{self._server}{path}")
        except (OSError, http.client.HTTPException) as problem:
            raise ApiError(f"{self._server}{path}: the watch broke: {problem}") from None

    @property
    def _server(self) -> str:
        return self._credentials.server

    def _ask(self, verb: str, path: str, body: Any, kind: str) -> Document:
        failures = 0
        while True:
            try:
                return self._try(verb, path, body, kind)
            except ApiError as problem:
                if problem.status == 401 and self._credentials.forget():
                    continue  # refused before anything was done
                if not isinstance(problem, _NotSent) and not (verb == "GET" and problem.status in _AGAIN):
                    raise
                failures += 1
                error = problem
            wait = self._backoff.wait(failures, random.random(), error.retry_after)
            if wait is None:
                raise error
            self._sleep(wait)

    def _try(self, verb: str, path: str, body: Any, kind: str) -> Document:
        try:
            with self._asking(verb, path, body, kind, self._timeout) as answer:
                text = answer.read(MOST_ANSWER)
        except (OSError, http.client.HTTPException) as problem:
            raise ApiError(f"{self._server} did not answer {verb} {path}: {problem}") from None
        if answer.status not in (200, 201, 202):
            raise _refusal(self._server, verb, path, answer, text)
        self._credentials.worked()
        return _document(text, f"{self._server}{path}")

    def _connect(self, state: _State, timeout: float) -> http.client.HTTPSConnection:
        """A connection, its TLS handshake done: until here nothing was asked."""
        connection = _Connection(state.access, state.context, self._timeout)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as problem:
            raise _NotSent(f"{self._server} can't be reached: {problem}") from None
        connection.sock.settimeout(timeout)
        return connection

    @contextmanager
    def _asking(self, verb: str, path: str, body: Any, kind: str, timeout: float) -> Iterator[http.client.HTTPResponse]:
        """The answer, open for the time of the block."""
        try:
            state = self._credentials.current()
        except AccessError as problem:
            raise _NotSent(str(problem)) from None
        headers = {"Accept": "application/json", "User-Agent": "colocation-agent"}
        if kind:
            headers["Content-Type"] = kind
        if state.token:
            headers["Authorization"] = f"Bearer {state.token}"
        content = None if body is None else json.dumps(body)
        connection = self._connect(state, timeout)
        try:
            connection.request(verb, state.access.prefix + path, content, headers)
            with connection.getresponse() as answer:  # it keeps the connection open when that is closed alone
                yield answer
        finally:
            connection.close()


class _Connection(http.client.HTTPSConnection):
    """To the access's host; its certificate may carry another name."""

    def __init__(self, access: Access, context: ssl.SSLContext, timeout: float) -> None:
        super().__init__(access.host, access.port, timeout=timeout, context=context)
        self._tls = context
        self._name = access.server_name or access.host

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self.timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)
        except BaseException:
            plain.close()
            raise


def kubeconfig(file: str) -> Callable[[], Access]:
    """For KubeApi: the access that a kubeconfig says whenever it is asked."""

    def find() -> Access:
        try:
            return from_kubeconfig(Path(file).read_text(), file)
        except (OSError, UnicodeDecodeError) as problem:
            raise AccessError(f"{file} can't be read: {problem}") from None

    return find


@dataclass(frozen=True, slots=True)
class _State:
    """Credentials, ready for use."""

    access: Access
    context: ssl.SSLContext
    token: str


class _Credentials:
    """What was read, until one of its files is another."""

    def __init__(self, find_access: Callable[[], Access]) -> None:
        self._find = find_access
        self._state: _State | None = None
        self._seen: tuple[object, ...] = ()
        self._retried = False
        self.server = "the API server"

    def current(self) -> _State:
        state = self._state
        if state is None or self._seen != _signature(state.access.files):
            access = self._find()
            self.server = access.server
            seen = _signature(access.files)  # before they are read: a change in between is seen next time
            state = _State(access, tls_context(access), token_of(access))
            self._seen, self._state = seen, state
        return state

    def forget(self) -> bool:
        """Read everything again; False if that was done since the last success."""
        again, self._retried, self._state = not self._retried, True, None
        return again

    def worked(self) -> None:
        self._retried = False


def _signature(files: tuple[str, ...]) -> tuple[object, ...]:
    found: list[object] = []
    for file in files:
        try:
            stat = os.stat(file)
            found.append((stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def token_of(access: Access) -> str:
    """The token as it is now, or "" where there is none."""
    token = access.token.content
    if access.token.file:
        try:
            token = Path(access.token.file).read_text()
        except (OSError, UnicodeDecodeError) as problem:
            raise AccessError(f"the token {access.token.file} can't be read: {problem}") from None
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise AccessError("the token has characters that no token has")
    return token


def tls_context(access: Access) -> ssl.SSLContext:
    """What believes in the cluster's authority, and shows our certificate."""
    try:
        context = ssl.create_default_context(cafile=access.ca.file or None, cadata=access.ca.content or None)
        # Python 3.13 and later want extensions that authorities made by older Kubernetes do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.certificate:
            _load_certificate(context, access.certificate, access.key)
    except (OSError, ssl.SSLError) as problem:
        files = ", ".join(access.files) or "the kubeconfig"
        raise AccessError(f"the certificates of {files} can't be used: {problem}") from None
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Material, key: Material) -> None:
    """ssl reads files only; what has none gets one in memory, so that no key lands on a disk."""
    if certificate.file and key.file:
        context.load_cert_chain(certificate.file, key.file)
        return
    content = "\n".join(m.content or Path(m.file).read_text() for m in (certificate, key))
    memory = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(memory, content.encode())
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _refusal(server: str, verb: str, path: str, answer: http.client.HTTPResponse, text: bytes) -> ApiError:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    asked = answer.headers.get("Retry-After", "")
    what = f"{server}{path} answers {verb} with {answer.status} {said.get('message') or answer.reason}"
    return ApiError(what, answer.status, str(said.get("reason") or ""), float(asked) if asked.isdecimal() else None)


def _document(text: bytes, where: str) -> Document:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ApiError(f"{where}: the answer is no JSON object")
    return document


def _events(answer: http.client.HTTPResponse, where: str) -> Iterator[Event]:
    kept = b""
    while chunk := answer.read1(65536):
        *lines, kept = (kept + chunk).split(b"\n")
        if len(kept) > MOST_EVENT:
            raise ApiError(f"{where}: an event of more than {MOST_EVENT} bytes")
        for line in filter(None, lines):
            document = _document(line, where)
            kind, content = document.get("type"), document.get("object")
            if not isinstance(kind, str) or not isinstance(content, dict):
                raise ApiError(f"{where}: this is no event: {line[:80]!r}")
            if kind == "ERROR":
                code = content.get("code")
                what = f"{where}: {content.get('message')}"
                raise ApiError(what, code if isinstance(code, int) else 0, str(content.get("reason") or ""))
            yield Event(kind, content)
