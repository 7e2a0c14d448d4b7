# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A client of the Kubernetes API for modules: JSON over connections that are kept, from any number of threads.

What may be done twice is tried again: reads always, writes where the caller says `repeat=True` (a JSON patch that
tests what it replaces). A write that was never sent, or that the server turned away with 429 unread, is tried again
in any case but an eviction, whose 429 is an answer. After a 401 the credentials are read again, once.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_connection import Wire, describe
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_tls import Proof, make_proof

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # server-side apply; JSON is YAML too
TRIES = 4
FIRST_WAIT = 0.2
LONGEST_WAIT = 5.0
PAGE = 500
_TURNED_AWAY = 429
_AGAIN = (0, _TURNED_AWAY, 500, 502, 503, 504)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that the API found wrong."""

    field: str
    reason: str
    message: str


class ApiError(Exception):
    """The API said no, or nothing."""

    def __init__(
        self,
        what: str,
        status: int = 0,
        reason: str = "",
        message: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        sent: bool = True,
        final: bool = False,
    ) -> None:
        super().__init__(what)
        self.status = status  # of HTTP; 0: no answer came
        self.reason = reason  # the API's word: NotFound, Conflict, Invalid, Forbidden …
        self.message = message or what
        self.causes = causes
        self.retry_after = retry_after
        self.sent = sent  # whether the request left us: where no answer came nobody knows if it was done
        self.final = final  # another try can't help


class KubeClient:
    """Requests to one API server. Close it, or use it as a context, so that no connection stays behind."""

    def __init__(
        self,
        access: Access,
        timeout: float = 30,
        user_agent: str = "colocation.kubernetes",
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self._timeout = timeout
        self._user_agent = user_agent
        self._tries = tries
        self._sleep = sleep
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._proof: Proof | None = None
        self._generation = 0  # of the proof: connections made with an older one are not used again

    def __enter__(self) -> KubeClient:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """An object, or one page of a list."""
        return self._ask("GET", path, query or {}, None, "", repeat=True)

    def find(self, path: str) -> Document | None:
        """An object, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """What is no JSON: a container's log."""
        return self._answered("GET", path, query or {}, None, "", repeat=True)[1].decode("utf-8", "replace")

    def items(self, path: str, label_selector: str = "", field_selector: str = "", page: int = PAGE) -> list[Document]:
        """All items of a list, page by page; a list that changes too fast for pages is read in one piece."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(page)}
        try:
            return self._pages(path, query)
        except ApiError as error:
            if error.status != 410:
                raise
        return self._pages(path, {**query, "limit": ""})

    def _pages(self, path: str, query: Mapping[str, str]) -> list[Document]:
        items: list[Document] = []
        following = ""
        while True:
            answer = self.get(path, {**query, "continue": following})
            items += answer.get("items") or []
            following = (answer.get("metadata") or {}).get("continue") or ""
            if not following:
                return items

    def post(self, path: str, body: Document, query: Mapping[str, str] | None = None) -> Document:
        """Make an object, or ask for a review or an eviction."""
        return self._ask("POST", path, query or {}, body, "application/json", repeat=False)

    def patch(
        self,
        path: str,
        body: Document | list[Document],
        kind: str = STRATEGIC_PATCH,
        *,
        field_manager: str = "",
        dry_run: bool = False,
        repeat: bool = False,
    ) -> Document:
        """Change parts of an object; with `dry_run` the server only says what would come of it."""
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else ""}
        return self._ask("PATCH", path, query, body, kind, repeat=repeat or dry_run)

    def apply(self, path: str, body: Document, field_manager: str, *, dry_run: bool = False) -> Document:
        """Have an object say this, whoever wrote something else there; what we said before and don't any more goes."""
        query = {"fieldManager": field_manager, "force": "true", "dryRun": "All" if dry_run else ""}
        return self._ask("PATCH", path, query, body, APPLY_PATCH, repeat=True)

    def delete(self, path: str, body: Document | None = None, *, dry_run: bool = False) -> Document:
        """Remove an object; `body` are DeleteOptions."""
        query = {"dryRun": "All" if dry_run else ""}
        return self._ask("DELETE", path, query, body, "application/json" if body else "", repeat=dry_run)

    def remove(self, path: str, body: Document | None = None) -> None:
        """Have no such object."""
        try:
            self.delete(path, body)
        except ApiError as problem:
            if problem.status != 404:
                raise

    def secrets(self) -> tuple[str, ...]:
        """What must not be printed, as far as it was read until now."""
        with self._lock:
            read = self._proof.secrets if self._proof else ()
        return (*self.access.secrets(), *read)

    def _ask(self, verb: str, path: str, query: Mapping[str, str], body: Any, kind: str, *, repeat: bool) -> Document:
        return _document(*self._answered(verb, path, query, body, kind, repeat=repeat))

    def _answered(
        self, verb: str, path: str, query: Mapping[str, str], body: Any, kind: str, *, repeat: bool
    ) -> tuple[str, bytes]:
        """Ask until there is an answer that stands, or no more tries."""
        target = _with(path, query)
        failures = 0
        renewed = False
        while True:
            try:
                return self._try(verb, target, path, body, kind)
            except ApiError as problem:
                error = problem
            if error.status == 401 and not renewed:
                renewed = True
                self._forget()
                continue
            failures += 1
            if failures >= self._tries or not _may_repeat(error, verb, repeat):
                raise error
            full = min(FIRST_WAIT * 2.0 ** (failures - 1), LONGEST_WAIT)
            wait = full * (0.5 + random.random() / 2)  # spread, so that threads don't come in step
            self._sleep(wait if error.retry_after is None else max(wait, min(error.retry_after, LONGEST_WAIT)))

    def _try(self, verb: str, target: str, path: str, body: Any, kind: str) -> tuple[str, bytes]:
        where = f"{verb} {self.access.server.rstrip('/')}{path}"
        wire, proof = self._take(where)
        headers = _headers(proof, self.access, self._user_agent, kind)
        content = None if body is None else json.dumps(body).encode()
        try:
            status, answered, text = wire.exchange(verb, target, content, headers)
        except (OSError, http.client.HTTPException) as problem:
            wire.close()
            if wire.used and _went_stale(problem):
                # The server closed an idle connection just then. A fresh one tells more, if the request may repeat.
                raise ApiError(f"{where}: the connection was closed", retry_after=0) from None
            raise ApiError(f"{where}: no answer: {describe(problem)}") from None
        except ValueError as problem:  # a header that can't be one; it may hold a secret
            wire.close()
            raise ApiError(f"{where}: can't be asked: {type(problem).__name__}", sent=False, final=True) from None
        self._give_back(wire)
        if status not in (200, 201, 202):
            raise refusal(where, status, answered, text)
        return where, text

    def _take(self, where: str) -> tuple[Wire, Proof]:
        """A connection and what to say on it: one that was kept, else a new one."""
        try:
            with self._lock:
                if self._proof is None:
                    self._proof = make_proof(self.access)
                proof, generation = self._proof, self._generation
                while self._idle:
                    wire = self._idle.pop()
                    if wire.is_quiet():
                        return wire, proof
                    wire.close()
        except AccessError as problem:
            raise ApiError(str(problem), sent=False, final=True) from None
        wire = Wire(self.access, proof.context, self._timeout, generation)
        try:
            wire.connect()
        except ssl.SSLCertVerificationError as problem:
            wire.close()
            what = f"{where}: the server's certificate is refused: {problem.verify_message or problem}"
            raise ApiError(f"{what}; name its authority with ca_cert", sent=False, final=True) from None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            wire.close()
            raise ApiError(f"{where}: can't be reached: {describe(problem)}", sent=False) from None
        return wire, proof

    def _give_back(self, wire: Wire) -> None:
        with self._lock:
            if wire.alive and wire.generation == self._generation:
                self._idle.append(wire)
                return
        wire.close()

    def _forget(self) -> None:
        """Read the credentials again for the next request; connections that carry the old ones are closed."""
        with self._lock:
            self._proof = None
            self._generation += 1
        self.close()


def api_path(*parts: str) -> str:
    """A path of the API; names are escaped, so that none can lead elsewhere."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def pointer(*names: str) -> str:
    """A JSON pointer as JSON patches want it."""
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def refusal(where: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
    """The API's Status as an error; what is no Status is told by its number."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    details = said.get("details")
    listed = details.get("causes") if isinstance(details, dict) else None
    causes = tuple(
        Cause(*(str(one.get(name) or "") for name in ("field", "reason", "message")))
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
    )
    message = str(said.get("message") or http.client.responses.get(status, ""))
    asked = headers.get("retry-after", "")
    return ApiError(
        f"{where}: {status} {message}".rstrip(),
        status,
        str(said.get("reason") or ""),
        message,
        causes,
        float(asked) if asked.isdecimal() else None,
    )


def _may_repeat(error: ApiError, verb: str, repeat: bool) -> bool:
    if error.final:
        return False
    if not error.sent or (error.status == _TURNED_AWAY and verb != "POST"):
        return True
    return repeat and error.status in _AGAIN


def _went_stale(problem: Exception) -> bool:
    return isinstance(problem, (ConnectionError, http.client.RemoteDisconnected, http.client.BadStatusLine))


def _headers(proof: Proof, access: Access, user_agent: str, kind: str) -> list[tuple[str, str | bytes]]:
    headers: list[tuple[str, str | bytes]] = [("Accept", "application/json"), ("User-Agent", user_agent)]
    if kind:
        headers.append(("Content-Type", kind))
    if proof.authorization:
        headers.append(("Authorization", proof.authorization))
    headers += _acting(access)
    return headers


def _acting(access: Access) -> Iterable[tuple[str, bytes]]:
    act = access.act_as
    if act.user:
        yield "Impersonate-User", act.user.encode()
    if act.uid:
        yield "Impersonate-Uid", act.uid.encode()
    for group in act.groups:
        yield "Impersonate-Group", group.encode()
    for key, value in act.extra:
        yield f"Impersonate-Extra-{quote(key, safe='')}", value.encode()


def _with(path: str, query: Mapping[str, str]) -> str:
    asked = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(asked)}" if asked else path


def _document(where: str, text: bytes) -> Document:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ApiError(f"{where}: the answer is no JSON object", final=True)
    return document
