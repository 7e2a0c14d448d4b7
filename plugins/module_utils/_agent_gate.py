# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Is a started agent well? Judged look by look: up, by systemd and by its own word, and it stays so for a while.

`judge` is pure; `wait` asks systemd and the agent's page until there is a verdict or the time is over.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

MOST_CRASHES = 3  # after so many ends of its process, since we look, no one waits for the time to be over
PAUSE = 0.25
ASK_SECONDS = 3.0


class NotWell(Exception):
    """The agent did not get healthy; the text says how it was last."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the agent is at one moment."""

    now: float
    active: str  # ActiveState
    sub: str
    waiting: bool  # systemd has a job for it yet
    pid: str
    crashes: int  # NRestarts: how often systemd started it again by itself
    result: str
    health: int = 0  # status of /healthz; 0: no answer
    said: str = ""  # the body, or why there was no answer


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known from earlier looks."""

    first_well: float | None = None  # since when it has been well without a break
    before: int | None = None  # crashes at the first look: systemd counts them as long as nobody restarts it
    pid: str = ""
    crashes: int = 0
    verdict: str = ""  # "well", "ill" or not yet
    reason: str = ""


def judge(watch: Watch, look: Look, settle: float) -> Watch:
    """The next state of the watch."""
    before = look.crashes if watch.before is None else watch.before
    watch, ended = replace(watch, before=before), look.crashes - before
    if look.waiting:
        return replace(watch, first_well=None, reason=f"it is {look.active} ({look.sub})")
    if look.active == "failed":
        return replace(watch, verdict="ill", reason=f"systemd gave it up ({look.result})")
    if ended >= MOST_CRASHES:
        return replace(watch, verdict="ill", reason=f"its process ended {ended} times ({look.result})")
    if look.active != "active":
        return replace(watch, first_well=None, reason=f"it is {look.active} ({look.sub})")
    if look.health != 200:
        said = " ".join(look.said.split())
        words = f"/healthz answers {look.health}: {said}" if look.health else f"/healthz does not answer: {said}"
        return replace(watch, first_well=None, reason=words)
    if watch.first_well is None or (look.pid, look.crashes) != (watch.pid, watch.crashes):
        reason = f"it has not been well for {settle:g} s yet"
        watch = replace(watch, first_well=look.now, pid=look.pid, crashes=look.crashes, reason=reason)
    if watch.first_well is not None and look.now - watch.first_well >= settle:
        return replace(watch, verdict="well", reason="")
    return watch


def wait(look: Callable[[], Look], sleep: Callable[[float], None], timeout: float, settle: float) -> float:
    """Wait until the agent is well; when it began to be. NotWell when it does not get there."""
    watch, now = Watch(), look()
    deadline = now.now + timeout
    while True:
        watch = judge(watch, now, settle)
        if watch.verdict == "well" and watch.first_well is not None:
            return watch.first_well
        if watch.verdict == "ill":
            raise NotWell(watch.reason)
        # One that is well when the time is over may still settle.
        if now.now >= deadline + (settle if watch.first_well is not None else 0):
            raise NotWell(f"{timeout:g} s were not enough: {watch.reason}")
        sleep(PAUSE)
        now = look()


def ask_health(url: str, most: int = 2000) -> tuple[int, str]:
    """Status and body of an agent's page; status 0 and a reason when there is no answer. No proxy is asked."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=ASK_SECONDS)
    try:
        connection.request("GET", place.path or "/", headers={"Connection": "close"})
        with connection.getresponse() as answer:
            return answer.status, answer.read(most).decode(errors="replace")
    except (OSError, http.client.HTTPException) as problem:
        return 0, str(problem) or type(problem).__name__
    finally:
        connection.close()
