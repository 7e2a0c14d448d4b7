# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The record of an agent's last switch on disk, with copies of the unit and configuration that stood before it.

`<state_dir>/agents/<agent>.json`; the copies lie beside it, readable for root only. A copy is written before the
record that speaks of it, and never while a switch is unfinished.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_decide import (
    HEALTHY,
    SWITCHING,
    Previous,
    Record,
    Setup,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._directory_lock import locked
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    FileState,
    digest,
    put_file,
    read,
    remove,
    remove_leftover,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import RECORDS


class Busy(Exception):
    """Another run works on this node's agents."""


class RecordStore:
    """One agent's record."""

    def __init__(self, state_dir: str, agent: str) -> None:
        self.directory = os.path.join(state_dir, RECORDS)
        self.path = os.path.join(self.directory, f"{agent}.json")
        self.copies = {part: os.path.join(self.directory, f"{agent}.previous.{part}") for part in ("config", "unit")}

    def exists(self) -> bool:
        """There is something to remove."""
        return any(os.path.lexists(path) for path in (self.path, *self.copies.values()))

    def read(self) -> Record | None:
        """The record; none when there is none, or one that says nothing: then all is done anew."""
        try:
            return _parse(json.loads(read(self.path) or b""))
        except (ValueError, KeyError, TypeError):
            return None

    def save(self, record: Record) -> None:
        """Put the record in place of the old one."""
        self._make_home()
        put_file(self.path, (json.dumps(_values(record), indent=2) + "\n").encode(), _private())

    def keep(self, part: str, content: bytes | None) -> None:
        """Keep what stands of "config" or "unit"."""
        self._make_home()
        if content is None:
            remove(self.copies[part])
        else:
            put_file(self.copies[part], content, _private())

    def kept(self, part: str, sha256: str) -> bytes:
        """What was kept; ValueError when it is not what the record speaks of."""
        content = read(self.copies[part])
        if content is None or digest(content) != sha256:
            raise ValueError(f"the copy {self.copies[part]} is missing or damaged")
        return content

    def remove(self) -> None:
        """Remove the record and the copies, and the directory after the last agent."""
        for path in (self.path, *self.copies.values()):
            remove_leftover(path)
            remove(path)
        with contextlib.suppress(OSError):  # not there, or not empty
            os.rmdir(self.directory)

    @contextlib.contextmanager
    def locked(
        self,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[None]:
        """Keep other runs out: a run whose controller was killed goes on for a while on the node."""
        busy = Busy(
            f"another run has worked on this node's agents for {timeout:g} s and still does; "
            f"wait for its end (fuser -v {self.directory} names its process)"
        )
        with locked(self.directory, self._make_home, timeout, busy, clock, sleep):
            yield

    def _make_home(self) -> None:
        os.makedirs(os.path.dirname(self.directory), 0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)


def _private() -> FileState:
    return FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600)


def _values(record: Record) -> dict[str, Any]:
    previous = record.previous
    flat = None if previous is None else {**asdict(previous.setup), **asdict(previous)}
    if flat is not None:
        del flat["setup"]
    return {
        "version": 1,
        "phase": record.phase,
        "wanted": asdict(record.wanted),
        "previous": flat,
        "restart": record.restart,
    }


def _parse(value: Any) -> Record:
    if value["version"] != 1 or value["phase"] not in (SWITCHING, HEALTHY):
        raise ValueError("not a record of version 1")
    before = value["previous"]
    previous = None
    if before is not None:
        modes = (int(before["config_mode"]), int(before["unit_mode"]))
        previous = Previous(_setup(before), bool(before["active"]), bool(before["enabled"]), *modes)
    return Record(value["phase"], _setup(value["wanted"]), previous, bool(value["restart"]))


def _setup(value: Any) -> Setup:
    return Setup(*(str(value[key]) for key in ("release", "config_sha256", "unit_sha256")))
