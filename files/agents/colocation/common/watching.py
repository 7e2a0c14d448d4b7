# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""List and watch one kind of object, for ever: what happened is told, what broke is tried again.

A watch that ends goes on from where it was; one that is told 410 (its version is too old) begins with a new list. The
server is asked to end each watch after a minute, so that a connection that died in silence is noticed by then.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

from colocation.common.journal import Log
from colocation.common.kube_api import ApiError, Document, KubeApi
from colocation.common.retry import Backoff

WATCH_SECONDS = 60
LEAST_SECONDS = 1.0  # between watches, where something ends them at once
BACKOFF = Backoff(first=0.5, most=15.0, tries=1 << 30)
log = Log("watch")


@dataclass(frozen=True, slots=True)
class Kind:
    """What is watched."""

    name: str
    path: str
    page: int  # objects in a page of the list; each is read as a whole
    selector: str = ""  # by fields


class Listener:
    """What is told; called from the watch's thread."""

    def begins(self) -> None:
        """A list begins; what came of one before that broke is void."""
        raise NotImplementedError

    def page(self, documents: list[Document]) -> None:
        """Some more of the list."""
        raise NotImplementedError

    def listed(self) -> None:
        """The list is complete: what was not in it is no more."""
        raise NotImplementedError

    def happened(self, kind: str, document: Document) -> None:
        """ADDED, MODIFIED or DELETED."""
        raise NotImplementedError


@dataclass(slots=True)
class Health:
    """How a watch is."""

    synced: bool = False
    problem: str = ""
    since: float = 0.0  # of the problem, by time.monotonic
    lists: int = 0
    events: int = 0
    failures: int = 0


class Watch:
    """Runs in a thread of its own until `stop`."""

    def __init__(self, api: KubeApi, kind: Kind, listener: Listener) -> None:
        self.kind = kind
        self.health = Health()
        self._api = api
        self._listener = listener
        self._version: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End soon; a watch that waits for an event ends with its connection."""
        self._stopped.set()

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                if self._version is None:
                    self._version = self._list()
                began = time.monotonic()
                self._watch(self._version)
                failures = 0
                self._stopped.wait(max(LEAST_SECONDS - (time.monotonic() - began), 0))
            except ApiError as problem:
                if problem.status == 410:
                    log.info("the version is too old, listing again", kind=self.kind.name)
                    self._version = None
                failures += 1
                self._failed(str(problem))
                wait = BACKOFF.wait(failures, random.random(), problem.retry_after)
                self._stopped.wait(wait)
            except Exception as problem:
                log.exception("the watch failed, listing again", kind=self.kind.name)
                self._version = None
                failures += 1
                self._failed(str(problem))
                self._stopped.wait(BACKOFF.wait(failures, random.random()))

    def _list(self) -> str:
        asked = {"limit": str(self.kind.page)} | self._selector()
        self._listener.begins()
        while True:
            answer = self._api.get(self.kind.path, **asked)
            metadata, items = answer.get("metadata"), answer.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, list | None):
                raise ApiError(f"{self.kind.path}: this is no list")
            self._listener.page([item for item in items or () if isinstance(item, dict)])
            if not metadata.get("continue"):
                break
            asked["continue"] = str(metadata["continue"])
        self._listener.listed()
        self.health.lists += 1
        self._worked()
        return str(metadata.get("resourceVersion", ""))

    def _watch(self, version: str) -> None:
        for event in self._api.watch(self.kind.path, version, WATCH_SECONDS, **self._selector()):
            if self._stopped.is_set():
                break
            if event.kind != "BOOKMARK":
                self._listener.happened(event.kind, event.object)
                self.health.events += 1
            metadata = event.object.get("metadata")
            if isinstance(metadata, dict) and metadata.get("resourceVersion"):
                self._version = str(metadata["resourceVersion"])
            self._worked()
        self._worked()

    def _selector(self) -> dict[str, str]:
        return {"fieldSelector": self.kind.selector} if self.kind.selector else {}

    def _worked(self) -> None:
        self.health.synced = True
        if self.health.problem:
            log.info("works again", kind=self.kind.name)
            self.health.problem = ""

    def _failed(self, problem: str) -> None:
        self.health.failures += 1
        if not self.health.problem:
            log.warning("can't watch, trying again", kind=self.kind.name, error=problem)
            self.health.since = time.monotonic()
        self.health.problem = problem
