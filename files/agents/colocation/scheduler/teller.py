# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Tells, as Events on our own pod, when nodes can't be measured or the cluster can't be watched, and when that is over.

A thread of its own writes them, so an API server that is gone holds up nothing else; what could not be written is tried
again as long as it is among the last. What flaps is told twice a minute, and as the same few Events.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colocation.common.events import About, Reporter
from colocation.common.journal import Log
from colocation.scheduler.engine import Engine

COMPONENT = "colocation-scheduler-extender"
LOOK_SECONDS = 1.0
LEAST_SECONDS = 30.0  # between what is told of the same subject, and between tries
MOST_WAITING = 4  # one of each kind
log = Log("teller")


@dataclass(frozen=True, slots=True)
class News:
    """What an Event says."""

    reason: str
    message: str
    kind: str


class Subject:
    """What is well or not, and what was told of it last. It was well before anybody looked."""

    def __init__(self, failed: str, recovered: str) -> None:
        self._failed = failed
        self._recovered = recovered
        self._bad = False
        self._at = float("-inf")
        self._why = ""

    def look(self, problem: str | None, now: float) -> News | None:
        """What there is to tell. `problem` is empty where all is well, and None where nobody knows yet."""
        if problem is None or bool(problem) == self._bad or now - self._at < LEAST_SECONDS:
            return None
        lasted, self._at, self._bad = now - self._at, now, bool(problem)
        if problem:
            self._why = problem
            return News(self._failed, problem, "Warning")
        return News(self._recovered, f"After {lasted:.0f} s; it was: {self._why}", "Normal")


def measuring(engine: Engine) -> str | None:
    """Why nodes can't be measured."""
    rounds = engine.rounds
    if rounds.problem:
        return f"{engine.source.name}: {rounds.problem}"
    return None if rounds.last_good is None else ""


def watching(engine: Engine) -> str | None:
    """Why the cluster can't be watched."""
    problems = [f"{watch.kind.name}: {watch.health.problem}" for watch in engine.watches if watch.health.problem]
    return "; ".join(problems) or ("" if engine.synced else None)


def own_pod(environ: Mapping[str, str]) -> About | None:
    """The pod that we are, as its environment says; None where it does not."""
    name, namespace, uid = (environ.get(key, "") for key in ("POD_NAME", "POD_NAMESPACE", "POD_UID"))
    return About("Pod", name, uid, namespace) if name and namespace and uid else None


class Teller:
    """Looks at the engine that answers, until `stop`."""

    def __init__(self, about: About, reporter: Reporter, engine: Callable[[], Engine]) -> None:
        self._about = about
        self._reporter = reporter
        self._engine = engine
        self._subjects = (
            (Subject("ColocationMeasuringFailed", "ColocationMeasuringRecovered"), measuring),
            (Subject("ColocationWatchFailed", "ColocationWatchRecovered"), watching),
        )
        self._waiting: deque[tuple[News, datetime.datetime]] = deque(maxlen=MOST_WAITING)
        self._rest_until = 0.0
        self._complained = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End soon; a write that waits for an answer ends by its deadline."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look(time.monotonic())
            except Exception:
                log.exception("what happened could not be told")
                self._stopped.wait(LEAST_SECONDS)

    def look(self, now: float) -> None:
        """See what is new, and write what waits."""
        engine = self._engine()
        for subject, problem in self._subjects:
            news = subject.look(problem(engine), now)
            if news:
                self._waiting.append((news, datetime.datetime.now(datetime.timezone.utc)))
        while self._waiting and now >= self._rest_until:
            news, when = self._waiting[0]
            if why := self._reporter.say(self._about, news.reason, news.message, when, news.kind):
                (log.debug if self._complained else log.warning)(
                    "an event can't be written", reason=news.reason, why=why
                )
                self._complained, self._rest_until = True, now + LEAST_SECONDS
                return
            self._waiting.popleft()
            self._complained = False
