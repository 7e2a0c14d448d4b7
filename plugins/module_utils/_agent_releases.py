# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The releases of the agents on a node: what stands there, what is in use, what can go.

    /opt/colocation/releases/<id>/     whole releases; a name that begins with .partial- is never one
    /opt/colocation/current            a link to the one that units start from

A release stays while `current` leads to it, a process has it as its working directory, or an agent's record in the
state directory names it (the one to go back to). How one is made is `_agent_install`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_layout import (
    CURRENT,
    GONE,
    RELEASES,
    current_release,
    working_directory,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    RECORD,
    RELEASE_ID,
    TreeError,
    faults,
    read_record,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._directory_lock import LOCK_SECONDS
from ansible_collections.colocation.kubernetes.plugins.module_utils._directory_lock import locked as locked_directory
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import put_link, remove, remove_leftover

PARTIAL = ".partial-"
DIRECTORY_MODE = 0o755


class ReleaseError(Exception):
    """What can't be done to a node's releases, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A release directory."""

    id: str
    python: str
    architecture: str
    fault: str  # why it can't be trusted, or ""


@dataclass(frozen=True, slots=True)
class View:
    """What stands on a node."""

    installed: tuple[Installed, ...]  # newest first
    current: str  # a release, or ""
    used: dict[str, str]  # releases that must stay, and why
    leftovers: tuple[str, ...]  # of interrupted runs
    free: int  # bytes for new files

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> View:
        installed = tuple(Installed(**item) for item in value["installed"])
        return View(installed, value["current"], dict(value["used"]), tuple(value["leftovers"]), value["free"])


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done so that a release stands on a node."""

    install: bool
    replaces: str  # what is wrong with the one that stands there under its name, or ""
    link: bool
    remove: tuple[str, ...]
    clear: bool  # leftovers

    @property
    def changes(self) -> bool:
        return self.install or self.link or bool(self.remove) or self.clear


def plan(view: View, wanted: str, python: str, architecture: str, keep: int) -> Plan:
    """Compare what stands with what is wanted; of the others the newest are kept, and those in use in any case."""
    there = next((found for found in view.installed if found.id == wanted), None)
    fault = there.fault if there else ""
    if there and not fault and (there.python, there.architecture) != (python, architecture):
        fault = f"it is made for Python {there.python} on {there.architecture}"
    stay = {wanted, *view.used}
    for found in view.installed:
        if len(stay) < keep:
            stay.add(found.id)
    gone = tuple(found.id for found in view.installed if found.id not in stay)
    link = view.current not in {wanted, *(found.id for found in view.installed)}
    return Plan(there is None or bool(fault), fault, link, gone, bool(view.leftovers))


def lacks_room(view: View, todo: Plan, needed: int) -> bool:
    """Whether the disk is too small, as far as can be told from afar: leftovers go first, and make room."""
    return todo.install and not todo.clear and view.free < needed


# Looking


def look(root: str, state_dir: str, proc: str = "/proc") -> View:
    """What stands at `root`; every release is compared with its hashes."""
    root = os.path.realpath(root)
    releases = os.path.join(root, RELEASES)
    names = os.listdir(releases) if os.path.isdir(releases) else []
    ids = [name for name in names if RELEASE_ID.fullmatch(name)]
    found = [_installed(releases, name) for name in sorted(ids, key=lambda name: _age(releases, name), reverse=True)]
    now = current_release(root)
    used = dict.fromkeys(recorded(state_dir, ids), "an agent's record names it")
    used |= {name: f"process {pids[0]} runs from it" for name, pids in running(root, proc).items() if name in ids}
    if now in ids:
        used[now] = "current leads to it"
    return View(tuple(found), now, used, tuple(name for name in names if name.startswith(PARTIAL)), free(root))


def _installed(releases: str, name: str) -> Installed:
    path = os.path.join(releases, name)
    try:
        release = read_record(path)
    except TreeError as problem:
        return Installed(name, "", "", str(problem))
    fault = faults(path, release, os.geteuid()) if release.id == name else f"it says that it is {release.id}"
    return Installed(name, release.python, release.architecture, fault)


def _age(releases: str, name: str) -> tuple[int, str]:
    """When it was installed: its record is written last."""
    with contextlib.suppress(OSError):
        return os.lstat(os.path.join(releases, name, RECORD)).st_mtime_ns, name
    return 0, name


def running(root: str, proc: str = "/proc") -> dict[str, list[int]]:
    """The processes that work in each release (or partial one)."""
    prefix = os.path.join(os.path.realpath(root), RELEASES, "")
    found: dict[str, list[int]] = {}
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        where = working_directory(proc, str(pid))
        if where.startswith(prefix):
            found.setdefault(where[len(prefix) :].split("/")[0].removesuffix(GONE), []).append(pid)
    return found


def recorded(state_dir: str, ids: Iterable[str]) -> set[str]:
    """The releases that any agent's record names. Looked for as text, so that a damaged record protects as well."""
    directory = os.path.join(state_dir, "agents")
    text = ""
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read()
    return {name for name in ids if name in text}


def free(path: str) -> int:
    """The bytes that root may still write where `path` is or will be."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


# Changing; the caller holds the lock


@contextlib.contextmanager
def locked(
    root: str,
    timeout: float = LOCK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Make the directory of releases and hold it, so that two runs don't take each other's half-made release away."""
    root = os.path.realpath(root)
    releases = os.path.join(root, RELEASES)

    def make() -> None:
        for directory in (root, releases):
            _make_directory(directory)

    busy = ReleaseError(
        f"another run has changed {releases} for {timeout:g} s and still does; "
        f"wait for its end (fuser -v {releases} names its process)"
    )
    with locked_directory(releases, make, timeout, busy, clock, sleep):
        yield releases


def _make_directory(path: str) -> None:
    if not os.path.isdir(path):
        os.makedirs(path, DIRECTORY_MODE)
        os.chmod(path, DIRECTORY_MODE)
    found = os.stat(path)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise ReleaseError(
            f"{path} can be changed by others than user {os.geteuid()}, and root would run what they put there: "
            f"chown {os.geteuid()} {path} && chmod go-w {path}"
        )


def point(root: str, release: str) -> None:
    """Let `current` lead to a release."""
    path = os.path.join(os.path.realpath(root), CURRENT)
    if os.path.lexists(path) and not os.path.islink(path):
        raise ReleaseError(f"{path} is not a link; move it away")
    put_link(path, f"{RELEASES}/{release}")


def fresh_partial(releases: str, release: str) -> str:
    """A name for something that is no release (yet, or any more)."""
    return os.path.join(releases, f"{PARTIAL}{release}-{secrets.token_hex(4)}")


def drop(releases: str, names: Sequence[str]) -> None:
    """Remove releases and leftovers; a half-removed one is not a release any more."""
    for name in names:
        path = os.path.join(releases, name)
        if not name.startswith(PARTIAL):
            aside = fresh_partial(releases, name)
            os.rename(path, aside)
            path = aside
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes when all goes, and what is not ours."""

    releases: tuple[str, ...]
    leftovers: tuple[str, ...]
    link: bool
    directory: bool
    kept: tuple[str, ...]

    @property
    def changes(self) -> bool:
        return bool(self.releases or self.leftovers or self.link or self.directory)


def removal(root: str, proc: str = "/proc") -> Removal:
    """What `remove_all` would do; ReleaseError where something still runs."""
    root = os.path.realpath(root)
    busy = running(root, proc) if os.path.isdir(root) else {}
    if busy:
        said = "; ".join(f"{name}: process {', '.join(map(str, pids))}" for name, pids in sorted(busy.items()))
        raise ReleaseError(f"agents still run from {root} ({said}): stop and remove their units first")
    releases = os.path.join(root, RELEASES)
    names = sorted(os.listdir(releases)) if os.path.isdir(releases) else []
    ours = tuple(name for name in names if RELEASE_ID.fullmatch(name))
    left = tuple(name for name in names if name.startswith(PARTIAL))
    link = os.path.islink(os.path.join(root, CURRENT))
    others = [os.path.join(releases, name) for name in names if name not in ours + left]
    known = (RELEASES, CURRENT if link else "", ".current.colocation-new")
    others += [os.path.join(root, name) for name in _listed(root) if name not in known]
    return Removal(ours, left, link, os.path.isdir(root) and not others, tuple(others))


def _listed(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def remove_all(root: str, proc: str = "/proc") -> Removal:
    """Remove every release, the link, and the directories if nothing else is in them."""
    root = os.path.realpath(root)
    found = removal(root, proc)
    if not os.path.isdir(root):
        return found
    link = os.path.join(root, CURRENT)
    if found.link:
        remove(link)
    remove_leftover(link)
    if os.path.isdir(os.path.join(root, RELEASES)):
        with locked(root) as releases:
            drop(releases, found.releases + found.leftovers)
    for directory in (os.path.join(root, RELEASES), root):
        with contextlib.suppress(OSError):  # not there, or not empty
            os.rmdir(directory)
    return found
