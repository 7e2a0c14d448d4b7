# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What stands at a path, and how to put something else there at one stroke.

Knows: files, symbolic links, their owner, mode and SELinux label. Refuses to know: why anything is changed and what
stood there first (that is `_ledger`). Each put is one rename, so a reader sees the old thing or the new one, never
half of it. The new thing is prepared beside the target under a fixed name, so what a killed run leaves behind is
overwritten by the next one and found by `remove_leftover`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

LABEL_ATTRIBUTE = "security.selinux"
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENODATA, errno.EPERM, errno.EACCES, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class FileState:
    """What stands at a path, in values that JSON knows."""

    kind: str  # "absent" | "file" | "link" | "other" (a directory, a device, a socket)
    sha256: str = ""
    target: str = ""
    uid: int = 0
    gid: int = 0
    mode: int = 0
    label: str = ""

    def same_as(self, other: FileState) -> bool:
        """Equal in all but the label, which the policy of the system may change at any time."""
        if self.kind != other.kind or self.kind == "other":
            return False
        if self.kind == "file":
            return (self.sha256, self.uid, self.gid, self.mode) == (other.sha256, other.uid, other.gid, other.mode)
        return self.target == other.target

    def to_json(self) -> dict[str, Any]:
        """The fields that say something, for an entry file."""
        return {key: value for key, value in asdict(self).items() if value or key == "kind"}

    @staticmethod
    def from_json(value: Any) -> FileState:
        """The reverse of `to_json`; ValueError says what is wrong."""
        if not isinstance(value, Mapping) or value.get("kind") not in ("absent", "file", "link"):
            raise ValueError(f"not the state of a file: {value!r}")
        numbers = {key: value.get(key, 0) for key in ("uid", "gid", "mode")}
        words = {key: value.get(key, "") for key in ("sha256", "target", "label")}
        if any(not isinstance(n, int) for n in numbers.values()) or any(not isinstance(w, str) for w in words.values()):
            raise ValueError(f"not the state of a file: {value!r}")
        return FileState(value["kind"], **numbers, **words)


ABSENT = FileState("absent")


def digest(content: bytes) -> str:
    """The hash by which contents are compared."""
    return hashlib.sha256(content).hexdigest()


def in_words(problem: OSError, otherwise: str) -> str:
    """What is wrong with which path; `otherwise` is told for one that names none."""
    return f"{problem.filename or otherwise}: {problem.strerror or problem}"


def look(path: str) -> FileState:
    """What stands at `path` itself; a link is not followed."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    bare = FileState("other", uid=found.st_uid, gid=found.st_gid, label=label_of(path))
    if stat.S_ISLNK(found.st_mode):
        return replace(bare, kind="link", target=os.readlink(path))
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        return replace(bare, mode=mode)
    return replace(bare, kind="file", sha256=digest(read(path) or b""), mode=mode)


def read(path: str) -> bytes | None:
    """The content, or None where nothing stands."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def label_of(path: str) -> str:
    """The SELinux label, or "" where the system has none."""
    try:
        return os.getxattr(path, LABEL_ATTRIBUTE, follow_symlinks=False).rstrip(b"\0").decode()
    except OSError:
        return ""


def resolve_parent(path: str) -> str:
    """`path` with the links among its directories resolved, but not the last part."""
    absolute = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(absolute)), os.path.basename(absolute))


def put_file(path: str, content: bytes, state: FileState) -> None:
    """Make `path` a file with this content and `state`'s owner, mode and label (a label "" is left to the system)."""
    fresh = _fresh_name(path)
    _remove_if_there(fresh)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _write_all(handle, content)
        _copy_attributes(path, handle)
        if (state.uid, state.gid) != (os.geteuid(), os.getegid()):
            os.fchown(handle, state.uid, state.gid)
        os.fchmod(handle, state.mode)
        _set_label(handle, state.label)
        os.fsync(handle)
    except OSError as problem:
        problem.filename = path  # a full disk is told without one
        raise
    finally:
        os.close(handle)
    os.replace(fresh, path)
    sync_directory(os.path.dirname(path))


def put_link(path: str, target: str, state: FileState | None = None) -> None:
    """Make `path` a symbolic link to `target`."""
    fresh = _fresh_name(path)
    _remove_if_there(fresh)
    os.symlink(target, fresh)
    if state is not None and (state.uid, state.gid) != (os.geteuid(), os.getegid()):
        os.chown(fresh, state.uid, state.gid, follow_symlinks=False)
    os.replace(fresh, path)
    sync_directory(os.path.dirname(path))


def remove(path: str) -> None:
    """Make `path` absent."""
    _remove_if_there(path)
    sync_directory(os.path.dirname(path))


def remove_leftover(path: str) -> None:
    """Clear what a killed `put_file` or `put_link` may have left beside `path`."""
    _remove_if_there(_fresh_name(path))


def sync_directory(path: str) -> None:
    """Make the names in a directory outlive a power cut."""
    try:
        handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fresh_name(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)[:200]}.colocation-new")


def _remove_if_there(path: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def _write_all(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def _copy_attributes(path: str, handle: int) -> None:
    """Access lists and the like go from the old file to the new one, as far as the system lets us."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return
    for name in names:
        if name != LABEL_ATTRIBUTE:
            try:
                os.setxattr(handle, name, os.getxattr(path, name, follow_symlinks=False))
            except OSError as problem:
                if problem.errno not in _NO_ATTRIBUTES:
                    raise


def _set_label(handle: int, label: str) -> None:
    if label:
        try:
            os.setxattr(handle, LABEL_ATTRIBUTE, label.encode())
        except OSError as problem:
            if problem.errno not in _NO_ATTRIBUTES:
                raise
