# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The state file: what was booked, as a hint for the next start. The runtime's list is the truth; without this file
only what it does not tell is lost (resources under containerd before 1.7, and why a container is where it is).

A file that is missing, cut off or not ours is no state; writing is atomic, and a full disk is a problem of tomorrow.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from colocation.cri_proxy.bookkeeping import Freed
from colocation.cri_proxy.calls import Resources
from colocation.cri_proxy.ledger import Entry, name_of
from colocation.cri_proxy.placement import Choice, Shape
from colocation.cri_proxy.wishes import Said

VERSION = 1
NAME = "state.json"


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a container."""

    name: str
    choice: Choice
    resources: Resources
    environment: Mapping[str, str]
    mems: bool  # we chose its memory nodes too


@dataclass(frozen=True, slots=True)
class State:
    """All that is remembered."""

    records: Mapping[str, Record] = field(default_factory=dict)
    freed: Mapping[str, Freed] = field(default_factory=dict)  # containers that were to get all CPUs back

    def all_freed(self) -> dict[str, Freed]:
        """These, and who has a place."""
        placed = {key: Freed(record.name, record.mems) for key, record in self.records.items()}
        return {**placed, **self.freed}


def encode(booked: Iterable[tuple[str, Entry, Said]], freed: Mapping[str, Freed], variables: Iterable[str]) -> str:
    """The file's content. Of a container's environment only these variables are kept."""
    kept, booked = tuple(variables), tuple(booked)
    mems = [key for key, entry, _said in booked if entry.mems] + [key for key, one in freed.items() if one.mems]
    containers = {
        key: {
            "name": name_of(entry.who),
            "shape": entry.shape.name,
            "ccxs": entry.ccxs,
            "alone": entry.alone,
            "resources": asdict(said.resources),
            "environment": {name: said.environment[name] for name in kept if name in said.environment},
        }
        for key, entry, said in booked
    }
    names = {key: one.name for key, one in freed.items()}
    return json.dumps({"version": VERSION, "containers": containers, "freed": names, "mems": mems}) + "\n"


def decode(text: str) -> State:
    """What `encode` wrote; a ValueError for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"it has the version {document['version']!r}, not {VERSION}")
        containers, freed = document["containers"], document["freed"]
        mems = {str(key) for key in document.get("mems", {**containers, **freed})}  # an older file does not tell
        records = {str(key): _record(one, key in mems) for key, one in containers.items()}
        return State(records, {str(key): Freed(str(name), key in mems) for key, name in freed.items()})
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise ValueError(f"it is no state of ours: {problem!r}") from None


def load(folder: str) -> tuple[State, str]:
    """The state in a folder, and what is wrong with its file, if anything is."""
    path = Path(folder, NAME)
    try:
        return decode(path.read_text(encoding="utf-8")), ""
    except FileNotFoundError:
        return State(), ""
    except (OSError, ValueError) as problem:
        return State(), f"{path} is of no use ({problem}); what runs is learnt from the runtime"


def save(folder: str, content: str) -> None:
    """Write the file as a whole or not at all; an OSError if it can't be."""
    path = Path(folder, NAME)
    scratch = path.with_name(f".{NAME}.new")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        scratch.write_text(content, encoding="utf-8")
        os.replace(scratch, path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def is_saved(folder: str) -> bool:
    """Whether the file is still there, as far as the disk tells."""
    return os.path.exists(os.path.join(folder, NAME))


def remove(folder: str) -> bool:
    """Forget; whether there was anything."""
    try:
        Path(folder, NAME).unlink()
    except FileNotFoundError:
        return False
    return True


def _record(one: dict[str, Any], mems: bool) -> Record:
    ccxs = tuple(_number(index) for index in one["ccxs"])
    choice = Choice(Shape[one["shape"]], ccxs, 0, _number(one["alone"]))
    given = one["resources"]
    period, quota, shares, memory = (
        _amount(given[name]) for name in ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit")
    )
    environment = {str(name): str(value) for name, value in one["environment"].items()}
    return Record(str(one["name"]), choice, Resources(period, quota, shares, memory), environment, mems)


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"{value!r} is no amount of the CRI")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no number of a CPU")
    return value
