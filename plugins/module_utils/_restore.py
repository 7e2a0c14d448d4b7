# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Undoing, as decisions: an entry of the ledger and what stands now go in, what to do with it comes out.

The law: a thing goes back only if it still is what we made of it; what somebody changed since is theirs and stays.
A thing that already is as before needs nothing. What would keep the kubelet from starting is refused unless forced.
Nothing here looks at the node or changes it (that is `_restore_walk`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import FileState
from ansible_collections.colocation.kubernetes.plugins.module_utils._hazard import is_swap_unit
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import Setting
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Entry
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

# What is stopped comes before the files it runs from, files before the units that start from them, swap near the end.
_RANKS = {"file": 1, "directory": 2, "sysctl": 4, "module": 5, "swap": 6, "package": 7}
_UNITS_DOWN, _UNITS_UP, _UNKNOWN = 0, 3, 8


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one entry."""

    action: str  # restore | nothing | keep (theirs now) | refuse (until forced) | problem
    reason: str = ""
    forget: bool = False  # drop the entry, after the action
    steps: tuple[str, ...] = ()  # for a unit


NOTHING = Decision("nothing", forget=True)
RESTORE = Decision("restore", forget=True)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """The order that is safe: see _RANKS; within it the newest first, as each has the one before it as original."""
    oldest_first = sorted(entries, key=lambda entry: entry.order)
    ranks: dict[tuple[str, str], int] = {}
    for entry in oldest_first:
        ranks.setdefault((entry.kind, entry.name), _rank(entry))

    def place(entry: Entry) -> tuple[int, bool, int, int]:
        main_config = entry.name.endswith("/containerd/config.toml")  # before the files that it imports
        depth = -entry.name.count("/") if entry.kind == "directory" else 0
        return ranks[entry.kind, entry.name], not main_config, depth, -entry.order

    return sorted(oldest_first, key=place)


def malformed(entry: Entry) -> str:
    """What is wrong with the values of an entry that could be read, or ""."""
    if entry.kind in ("file", "directory") and not entry.name.startswith("/"):
        return "its name is not an absolute path"
    if entry.kind in ("unit", "swap") and not (isinstance(entry.before, dict) and isinstance(entry.after, dict)):
        return "its before and after are not records"
    if entry.kind == "sysctl" and not isinstance(entry.before, (str, type(None))):
        return "its former value is not a text"
    return ""


def needs_reload(entry: Entry) -> bool:
    """This entry comes after the files, so systemd has to have read them."""
    return _rank(entry) >= _UNITS_UP


def decide_file(entry: Entry, now: FileState, original_problem: str, hazard: str, force: bool) -> Decision:
    """A file, a link or an absence."""
    before, after = FileState.from_json(entry.before), FileState.from_json(entry.after)
    if now.same_as(before):
        return NOTHING
    standing = FileState("absent") if entry.standing is None else FileState.from_json(entry.standing)
    ours = now.same_as(after) or (entry.standing is not None and now.same_as(standing))
    if not ours:
        return Decision("keep", f"it is not what we wrote any more: {_difference(now, after)}")
    if entry.mixed:
        return Decision("keep", "it has both our changes and somebody's who edited it between two of our runs")
    if original_problem:
        return Decision("problem", original_problem)
    if hazard and not force:
        return Decision("refuse", hazard)
    return RESTORE


def decide_directory(now: str) -> Decision:
    """A directory that we made; `now` is absent, empty, full or other."""
    if now == "empty":
        return RESTORE
    if now == "full":
        return Decision("keep", "files of others are in it")
    return NOTHING


def decide_unit(entry: Entry, now: UnitState, essential: Collection[str], force: bool) -> Decision:
    """A unit: each of active, enabled and masked goes back if we changed it and it still is so."""
    steps = _unit_steps(entry, now)
    if not steps:
        return NOTHING
    if not now.exists and not set(steps) <= {"unmask", "mask", "mask-runtime"}:
        return Decision("keep", "the unit is not installed any more", forget=True)
    if now.masked and "unmask" not in steps and {"start", "enable"} & set(steps):
        return Decision("keep", f"somebody masked it, so it can't {' and '.join(steps)}")
    hazard = _unit_hazard(entry.name, steps, essential)
    if hazard and not force:
        return Decision("refuse", hazard)
    return Decision("restore", ", ".join(steps), forget=True, steps=steps)


def decide_sysctl(entry: Entry, now: str | None, configured: Setting | None) -> Decision:
    """A kernel setting; `configured` is what files (ours is gone by now) set at boot."""
    if now is None or entry.before is None or now == entry.before:
        return NOTHING
    if now not in (entry.after, entry.standing):
        return Decision("keep", f"it is {now} now; we had set {entry.after}")
    if configured is not None and configured.value == now:
        return Decision("keep", f"{configured.file} sets it to {now} too", forget=True)
    return RESTORE


def decide_module(loaded: bool) -> Decision:
    """A kernel module stays: pods may use it, and nothing loads it at the next boot any more."""
    if not loaded:
        return NOTHING
    return Decision("keep", "it stays loaded until the next boot, because pods may use it", forget=True)


def decide_swap(entry: Entry, active: bool, exists: bool, force: bool) -> Decision:
    """A swap device that we turned off."""
    if active:
        return NOTHING
    if not exists:
        return Decision("keep", "the device or file is not there any more", forget=True)
    if not force:
        return Decision("refuse", "swap on again can keep the kubelet from starting (failSwapOn)")
    return RESTORE


def decide_package(entry: Entry, installed: bool, remove: bool, essential: bool, force: bool) -> Decision:
    """A package that we installed."""
    if not installed:
        return NOTHING
    if not remove:
        return Decision("keep", "it stays installed; remove_packages: true removes it")
    if essential and not force:
        return Decision("refuse", "without this package the kubelet can't start")
    return RESTORE


def _rank(entry: Entry) -> int:
    if entry.kind != "unit":
        return _RANKS.get(entry.kind, _UNKNOWN)
    before = entry.before if isinstance(entry.before, dict) else {}
    return _UNITS_UP if before.get("active") or before.get("enabled") or before.get("masked") else _UNITS_DOWN


def _unit_steps(entry: Entry, now: UnitState) -> tuple[str, ...]:
    before, after, current = entry.before, entry.after, now.record()

    def back(field: str) -> bool:
        """The field is to go back: we changed it, and it is not yet (or not by somebody else) as it was."""
        changed = bool(before.get(field)) != bool(after.get(field))
        return changed and bool(current[field]) == bool(after.get(field))

    steps = []
    if back("masked") and not before.get("masked"):
        steps.append("unmask")
    if back("enabled"):
        steps.append("enable" if before.get("enabled") else "disable")
    if back("active"):
        steps.append("start" if before.get("active") else "stop")
    if back("masked") and before.get("masked"):
        steps.append("mask-runtime" if before.get("masked") == "runtime" else "mask")
    return tuple(steps)


def _unit_hazard(name: str, steps: Collection[str], essential: Collection[str]) -> str:
    down = [step for step in steps if step in ("mask", "mask-runtime", "disable", "stop")]
    if name in essential and down:
        return f"the kubelet can't run after {' and '.join(down)} of {name}"
    up = [step for step in steps if step in ("unmask", "enable", "start")]
    if is_swap_unit(name) and up:
        return f"{' and '.join(up)} of {name} brings swap back, which can keep the kubelet from starting (failSwapOn)"
    return ""


def _difference(now: FileState, after: FileState) -> str:
    names = {"absent": "nothing is there", "link": f"a link to {now.target}", "other": "a directory or device"}
    if now.kind != after.kind:
        return names.get(now.kind, "a file is there")
    if now.kind == "link":
        return f"{names['link']}, ours was to {after.target}"
    if now.sha256 != after.sha256:
        return "its content was edited"
    if now.mode != after.mode:
        return f"its mode is {now.mode:04o}, ours was {after.mode:04o}"
    return f"its owner is {now.uid}:{now.gid}, ours was {after.uid}:{after.gid}"
