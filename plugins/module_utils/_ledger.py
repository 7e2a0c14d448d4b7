# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What we changed on this node, and what stood there first.

One JSON file for each changed thing, with a copy of the original content beside it. The law: the intent (what stands,
what will stand) is on disk before the change is made. So a run killed at any point can be run again, which finds its
own intent and goes on, and can be undone, because what stands then is the original, the intended thing, or (when an
earlier change of ours was about to be replaced) that earlier one; all three are in the entry.

Each owner (a role) has entries of its own. When two owners change one thing, the later entry has the earlier owner's
work as its original, and undoing them newest first gives back what stood before both.

Knows nothing about undoing: that is `_restore`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    ABSENT,
    FileState,
    digest,
    look,
    put_file,
    put_link,
    read,
    remove,
    resolve_parent,
    sync_directory,
)

__all__ = ["DEFAULT_OWNER", "DEFAULT_STATE_DIR", "Entry", "FileChange", "FileState", "Ledger", "LedgerError", "look"]

DEFAULT_STATE_DIR = "/var/lib/colocation"
DEFAULT_OWNER = "node_prep"
RECORDS = "agents"  # beside it: a record for each agent
NOTES = ("containerd-restart.json", "kubelet-restart")  # what modules keep beside it; without an entry it means nothing
KEPT_ASIDE = "kept"  # files that could not be read, by whose they are
PUT_BACK = "containerd"  # of these, once all is put back, they stand at their old place; others have no entry


class LedgerError(Exception):
    """A change that can't be made safely; the text says what stands where and what to do."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One change of a path: made, or in check mode only computed."""

    path: str  # where the change happens: links followed by write_file are resolved
    changed: bool
    before: bytes | None  # None: absent
    after: bytes | None
    requested: str = ""  # the path that was asked for
    before_mode: int | None = None
    after_mode: int | None = None

    @property
    def followed(self) -> str:
        """A sentence when a link was followed, else ""."""
        if not self.requested or resolve_parent(self.requested) == self.path:
            return ""
        return f"{self.requested} is a link; the file it leads to is managed: {self.path}"

    def diff(self) -> dict[str, str]:
        """Ansible's diff of this change: the content, or the mode when only that differs."""
        headers = {"before_header": self.path, "after_header": self.path}
        mode_differs = None not in (self.before_mode, self.after_mode) and self.before_mode != self.after_mode
        if mode_differs:
            headers = {
                "before_header": f"{self.path} (mode {self.before_mode:04o})",
                "after_header": f"{self.path} (mode {self.after_mode:04o})",
            }
        if mode_differs and self.before == self.after:
            return {"before": f"mode: {self.before_mode:04o}\n", "after": f"mode: {self.after_mode:04o}\n", **headers}
        return {"before": _printable(self.before), "after": _printable(self.after), **headers}


@dataclass(frozen=True, slots=True)
class Entry:
    """One changed thing."""

    kind: str  # "file", "directory", "unit", "sysctl", "module", "swap", "package", ...
    name: str  # path, unit name, sysctl key, ...
    before: Any  # what stood before we first touched it
    after: Any  # what we made of it last
    owner: str  # which role or module wrote it
    order: int = 0  # later entries have higher numbers
    standing: Any = None  # our earlier work that stood when `after` was about to replace it
    mixed: bool = False  # what we wrote last was made from somebody else's edit of our work


class Ledger:
    """The entries under one state directory, written in the name of one owner."""

    def __init__(
        self, state_dir: str = DEFAULT_STATE_DIR, owner: str = DEFAULT_OWNER, check_mode: bool = False
    ) -> None:
        self.directory = os.path.join(state_dir, "ledger")
        self.owner = owner
        self.check_mode = check_mode
        self.problems: list[str] = []  # entries that can't be read, filled by each reading

    # Changing files

    def write_file(
        self, path: str, content: bytes, *, mode: int | None = None, whole: bool = False, follow: bool = True
    ) -> FileChange:
        """Make the file at `path` hold `content`; owner, mode and label stay those of the old file.

        A link at `path` is followed (`follow=False` replaces it). `whole` says that `content` owes nothing to what
        stands there. Without it, content made from an edit that somebody put over our work is marked, and an
        uninstall will leave the file alone rather than lose that edit.
        """
        real = os.path.realpath(path) if follow else resolve_parent(path)
        now = look(real)
        if now.kind == "other":
            raise LedgerError(f"{real} is neither a file nor a link; move it away or choose another path")
        old = now if now.kind == "file" else FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o644)
        after = replace(old, sha256=digest(content), mode=old.mode if mode is None else mode)
        change = FileChange(
            real,
            not now.same_as(after),
            read(real) if now.kind == "file" else None,
            content,
            path,
            now.mode if now.kind == "file" else None,
            after.mode,
        )
        if change.changed and not self.check_mode:
            self._record_file(real, now, after, whole)
            put_file(real, content, after)
        return change

    def make_link(self, path: str, target: str) -> FileChange:
        """Make `path` a symbolic link to `target`; what stood there is kept."""
        real = resolve_parent(path)
        now = look(real)
        if now.kind == "other":
            raise LedgerError(f"{real} is neither a file nor a link; move it away or choose another path")
        after = FileState("link", target=target, uid=os.geteuid(), gid=os.getegid())
        change = FileChange(real, not now.same_as(after), _shown(real, now), f"-> {target}\n".encode(), path)
        if change.changed and not self.check_mode:
            self._record_file(real, now, after, True)
            put_link(real, target)
        return change

    def remove_file(self, path: str) -> FileChange:
        """Make `path` absent; what stood there is kept. A link is removed, not what it leads to."""
        real = resolve_parent(path)
        now = look(real)
        if now.kind == "other":
            raise LedgerError(f"{real} is neither a file nor a link, so it is not removed; do that by hand")
        change = FileChange(real, now.kind != "absent", _shown(real, now), None, path)
        if change.changed and not self.check_mode:
            self._record_file(real, now, ABSENT, True)
            remove(real)
        return change

    # Everything else: the caller makes the change after the note

    def note(self, kind: str, name: str, before: Any, after: Any) -> None:
        """Record that `name` will go from `before` to `after`. Call before the change.

        The first `before` is kept; of a record with fields, the first one of each field that we ever changed.
        """
        if self.check_mode:
            return
        old = self.find(kind, name)
        if old is None:
            if before != after:
                self._save(Entry(kind, name, before, after, self.owner, self._next_order()))
            return
        ours = before in (old.after, old.standing)
        entry = replace(old, before=_first(old, before), after=after, standing=before if ours else None)
        if (entry.before, entry.after) != (old.before, old.after):
            self._save(entry)

    # Reading and forgetting

    def entries(self) -> list[Entry]:
        """All owners' entries, oldest first; one that can't be read goes to `problems`."""
        self.problems = []
        found = []
        for name in self._names():
            path = os.path.join(self.directory, name)
            if name.endswith(".broken"):
                self.problems.append(f"{path}: an entry that could not be read, set aside by a later run")
            elif name.endswith(".json"):
                try:
                    found.append(_parse(read(path) or b""))
                except (ValueError, OSError) as problem:
                    self.problems.append(f"{path}: {problem}; the copy beside it, if any, is {self._copy_beside(path)}")
        return sorted(found, key=lambda entry: (entry.order, entry.kind, entry.name))

    def find(self, kind: str, name: str) -> Entry | None:
        """This owner's entry for a thing. One that can't be read is set aside, so that nothing overwrites it."""
        path = self._path(kind, name, self.owner)
        content = read(path)
        if content is None:
            return None
        try:
            return _parse(content)
        except ValueError:
            if not self.check_mode:
                for damaged in (self._copy_beside(path), path):
                    if os.path.exists(damaged):
                        os.replace(damaged, _free_name(damaged))
            return None

    def original(self, entry: Entry) -> bytes:
        """The kept content of a "file" entry; ValueError when it is missing or not what was kept."""
        path = self._copy_beside(self._path(entry.kind, entry.name, entry.owner))
        content = read(path)
        if content is None:
            raise ValueError(f"the kept original {path} is missing")
        if digest(content) != FileState.from_json(entry.before).sha256:
            raise ValueError(f"the kept original {path} is not what was kept (its hash differs)")
        return content

    def original_path(self, entry: Entry) -> str:
        """Where the kept content of a "file" entry is, for messages."""
        return self._copy_beside(self._path(entry.kind, entry.name, entry.owner))

    def forget(self, entry: Entry) -> None:
        """Drop an entry and its copy: the thing is no longer ours."""
        if self.check_mode:
            return
        path = self._path(entry.kind, entry.name, entry.owner)
        remove(path)
        remove(self._copy_beside(path))

    def sweep(self) -> None:
        """Drop copies without an entry (a killed run's; nothing had been changed yet); after the last entry, all."""
        if self.check_mode:
            return
        names = set(self._names())
        for name in names:
            orphan = name.endswith(".original") and name[: -len("original")] + "json" not in names
            if orphan or name.startswith("."):  # half-made files of a killed run
                remove(os.path.join(self.directory, name))
        state_dir = os.path.dirname(self.directory)
        if not any(name.endswith((".json", ".broken")) for name in self._names()):
            for note in NOTES:
                remove(os.path.join(state_dir, note))
            shutil.rmtree(os.path.join(state_dir, KEPT_ASIDE, PUT_BACK), ignore_errors=True)
        for directory in (self.directory, os.path.join(state_dir, KEPT_ASIDE), state_dir):
            with contextlib.suppress(OSError):  # not there, or not empty
                os.rmdir(directory)

    # Inside

    def _record_file(self, path: str, now: FileState, after: FileState, whole: bool) -> None:
        """Put the intent on disk, the original's copy first; then the directories that the file needs."""
        old = self.find("file", path)
        if old is None:
            if now.kind == "file":
                self._keep_copy(path)
            entry = Entry("file", path, now.to_json(), after.to_json(), self.owner, self._next_order())
        else:
            ours = [FileState.from_json(state) for state in (old.after, old.standing) if state is not None]
            standing, mixed = None, False
            if any(now.same_as(state) for state in ours):
                standing, mixed = now.to_json(), old.mixed and not whole
            elif not now.same_as(FileState.from_json(old.before)):
                mixed = not whole
            entry = replace(old, after=after.to_json(), standing=standing, mixed=mixed)
        self._save(entry)
        if after.kind != "absent":
            self._make_directories(os.path.dirname(path))

    def _make_directories(self, path: str) -> None:
        if os.path.isdir(path):
            return
        self._make_directories(os.path.dirname(path))
        self.note("directory", path, {"kind": "absent"}, {"kind": "directory"})
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)

    def _keep_copy(self, path: str) -> None:
        self._make_home()
        copy = self._copy_beside(self._path("file", path, self.owner))
        put_file(copy, read(path) or b"", _private())

    def _save(self, entry: Entry) -> None:
        self._make_home()
        fields = ("kind", "name", "before", "after", "owner", "order", "standing", "mixed")
        text = json.dumps({"version": 1, **{field: getattr(entry, field) for field in fields}}, indent=2) + "\n"
        put_file(self._path(entry.kind, entry.name, entry.owner), text.encode(), _private())

    def _make_home(self) -> None:
        if not os.path.isdir(self.directory):
            os.makedirs(os.path.dirname(self.directory), 0o755, exist_ok=True)
            os.mkdir(self.directory, 0o700)
            sync_directory(os.path.dirname(self.directory))

    def _names(self) -> list[str]:
        return sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []

    def _next_order(self) -> int:
        known, found = self.problems, self.entries()
        self.problems = known
        return 1 + max((entry.order for entry in found), default=0)

    def _path(self, kind: str, name: str, owner: str) -> str:
        key = hashlib.sha256(f"{owner}\0{kind}\0{name}".encode(errors="surrogateescape")).hexdigest()[:16]
        word = re.sub(r"[^A-Za-z0-9.@_-]+", "-", os.path.basename(name))[:60]
        return os.path.join(self.directory, f"{kind}.{word}.{key}.json")

    @staticmethod
    def _copy_beside(path: str) -> str:
        return path[: -len("json")] + "original"


def _private() -> FileState:
    return FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600)


def _free_name(path: str) -> str:
    number = 1
    while os.path.exists(f"{path}.{number}.broken"):
        number += 1
    return f"{path}.{number}.broken"


def _parse(content: bytes) -> Entry:
    """The entry in a file; ValueError says what is wrong with it."""
    try:
        value = json.loads(content)
    except ValueError as problem:
        raise ValueError(f"not a ledger entry ({problem})") from None
    if not isinstance(value, dict) or value.get("version") != 1:
        raise ValueError("not a ledger entry of version 1")
    kind, name, owner = (value.get(key) for key in ("kind", "name", "owner"))
    order, mixed = value.get("order", 0), value.get("mixed", False)
    missing = "before" not in value or "after" not in value
    if not (isinstance(kind, str) and isinstance(name, str) and isinstance(owner, str) and isinstance(order, int)):
        raise ValueError("a ledger entry with wrong fields")
    if missing or not (kind and name and owner):
        raise ValueError("a ledger entry with missing fields")
    standing = value.get("standing")
    entry = Entry(kind, name, value["before"], value["after"], owner, order, standing, bool(mixed))
    if entry.kind == "file":
        for state in (entry.before, entry.after, *([] if standing is None else [standing])):
            FileState.from_json(state)
    return entry


def _first(old: Entry, before: Any) -> Any:
    if not all(isinstance(value, dict) for value in (old.before, old.after, before)):
        return old.before
    untouched = {key: before[key] for key in old.before if key in before and old.before[key] == old.after.get(key)}
    return {**old.before, **untouched}


def _shown(path: str, now: FileState) -> bytes | None:
    """What stands at a path, for a diff."""
    if now.kind == "link":
        return f"-> {now.target}\n".encode()
    return read(path) if now.kind == "file" else None


def _printable(content: bytes | None) -> str:
    if content is None:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"(binary: {len(content)} bytes, sha256 {digest(content)})\n"
