# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When a plugin starts anew: the life of one registration as a pure decision.

The kubelet forgets its plugins when it restarts, deletes their sockets, and says nothing. So three things are looked at
in each round: which kubelet.sock stands there, whether our own socket still does, and whether the kubelet watches our
list. Each round that begins anew is a new *incarnation* with a socket name of its own: kubelets up to 1.36 take the end
of an old stream for the end of the new registration, and from 1.37 refuse a path that they are connected to.

No clock, no file, no socket is read here; `Sight` brings what was seen and when.
"""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass, replace

from colocation.device_plugin.config import LONGEST_SOCKET_NAME

FileId = tuple[int, int, int]  # device, inode, and the time it was made: inodes are used again


class Step(enum.Enum):
    """What to do now."""

    KEEP = "keep"
    BEGIN = "begin"  # end what there is, then serve and register as a new incarnation
    WAIT = "wait"  # there is no kubelet to register with


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen at one moment."""

    now: float
    kubelet: FileId | None  # kubelet.sock
    socket_there: bool  # our own
    streams: int  # kubelets that watch our list


@dataclass(frozen=True, slots=True)
class Life:
    """What is known from earlier rounds."""

    registered_with: FileId | None = None  # the kubelet.sock of our registration
    watched_at: float = 0.0  # when the list was last seen to be watched; the registration counts as that
    tried_with: FileId | None = None  # the kubelet.sock of the try that failed …
    next_try: float = 0.0  # … and when that one is tried again
    failures: int = 0  # in a row


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, why (for the log and the status), and what to remember."""

    step: Step
    why: str
    life: Life


def decide(life: Life, sight: Sight, grace: float) -> Decision:
    """What to do after looking around."""
    if life.registered_with is None:
        return _unregistered(life, sight)
    if sight.streams:
        life = replace(life, watched_at=sight.now)
    if sight.kubelet is None:
        return Decision(Step.WAIT, "the kubelet is not there", life)
    if sight.kubelet != life.registered_with:
        return Decision(Step.BEGIN, "the kubelet started anew", life)
    if not sight.socket_there:
        return Decision(Step.BEGIN, "our socket was removed", life)
    if not sight.streams and sight.now - life.watched_at > grace:
        return Decision(Step.BEGIN, f"the kubelet did not watch our list for {grace:g} s", life)
    return Decision(Step.KEEP, "registered" if sight.streams else "registered; the kubelet does not watch yet", life)


def _unregistered(life: Life, sight: Sight) -> Decision:
    if sight.kubelet is None:
        return Decision(Step.WAIT, "the kubelet is not there", life)
    if sight.now < life.next_try and sight.kubelet == life.tried_with:
        return Decision(Step.WAIT, "the last try failed; the next one follows", life)
    return Decision(Step.BEGIN, "not registered", life)


def registered(now: float, kubelet: FileId) -> Life:
    """After the kubelet took the registration."""
    return Life(registered_with=kubelet, watched_at=now)


def failed(life: Life, now: float, retry: float, kubelet: FileId | None) -> Life:
    """After it could not be done: later, and each time a little later, up to eight times `retry`. Another kubelet is
    tried at once."""
    failures = life.failures + 1 if kubelet == life.tried_with else 1
    return Life(tried_with=kubelet, next_try=now + retry * min(2 ** (failures - 1), 8), failures=failures)


def stem(resource: str) -> str:
    """The resource as part of a file name, its own: domains have no underscore. Long ones end in a hash."""
    plain = resource.replace("/", "_")
    most = LONGEST_SOCKET_NAME - len(".sock") - len(incarnation(0)) - 1
    if len(plain) <= most:
        return plain
    return f"{plain[: most - 9]}-{hashlib.sha256(resource.encode()).hexdigest()[:8]}"


def incarnation(nanoseconds: int) -> str:
    """A name for an incarnation from the time of its start."""
    return f"{nanoseconds & (1 << 64) - 1:016x}"


def socket_name(stem: str, incarnation: str) -> str:
    """The file of an incarnation's socket."""
    return f"{stem}.{incarnation}.sock"


def is_ours(file: str, stem: str) -> bool:
    """Whether a file name is that of an incarnation of this stem."""
    return re.fullmatch(re.escape(stem) + r"\.[0-9a-f]{16}\.sock", file) is not None
