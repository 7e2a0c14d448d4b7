# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whether containerd still runs with an older config than the one that stands.

A run that is killed between the write and the restart leaves a note: which effective config containerd ran with, and
when the files were written. The note holds until containerd is started anew, or until the config is back at what it
runs with. Times are those of the monotonic clock, which no time server sets back; a note of another boot is over.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass

_STARTED = re.compile(r"^ActiveEnterTimestampMonotonic=(\d+)$", re.MULTILINE)
_STATE = re.compile(r"^ActiveState=(\S+)$", re.MULTILINE)

NAME = "containerd-restart.json"


@dataclass(frozen=True, slots=True)
class Note:
    """That containerd needs a restart."""

    running: str  # fingerprint of the effective config that containerd runs with; empty when not known
    written: float  # monotonic seconds
    boot: str


@dataclass(frozen=True, slots=True)
class Now:
    """The moment, and since when containerd is active (None: it is not, or nobody knows)."""

    seconds: float
    boot: str
    active_since: float | None


def is_due(note: Note | None, now: Now, effective: str) -> bool:
    """Whether the note still says the truth."""
    if note is None or note.boot != now.boot or note.running == effective:
        return False
    return now.active_since is None or now.active_since <= note.written


def note_for(old: Note | None, now: Now, before: str) -> Note:
    """The note of a change that is about to be made; an older one that is still due keeps what containerd runs with."""
    return Note(old.running if old is not None and is_due(old, now, before) else before, now.seconds, now.boot)


def read_active_since(shown: str) -> float | None:
    """From `systemctl show`: monotonic seconds at which the service became active; None when it is not."""
    started, state = _STARTED.search(shown), _STATE.search(shown)
    if not started or not state or state[1] != "active" or started[1] == "0":
        return None
    return int(started[1]) / 1_000_000


def read_note(state_dir: str) -> Note | None:
    """The note, if there is one that can be read."""
    try:
        with open(os.path.join(state_dir, NAME), encoding="utf-8") as file:
            content = json.load(file)
        return Note(str(content["running"]), float(content["written"]), str(content["boot"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_note(state_dir: str, note: Note) -> None:
    os.makedirs(state_dir, mode=0o755, exist_ok=True)
    path = os.path.join(state_dir, NAME)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(asdict(note), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def remove_note(state_dir: str) -> None:
    try:
        os.unlink(os.path.join(state_dir, NAME))
    except FileNotFoundError:
        pass
