# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The socket that the kubelet dials: ours alone, and never absent once it was there.

It is made under another name and renamed, so whoever dials finds the old one or the new one. A lock beside it keeps a
second instance from taking it away; whose instance was killed leaves no lock.
"""

from __future__ import annotations

import fcntl
import os
import socket

BACKLOG = 128


class Taken(OSError):
    """Another instance serves there."""


class Listener:
    """Listens from the beginning to `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        directory = os.path.dirname(path)
        os.makedirs(directory, mode=0o755, exist_ok=True)
        self._lock = _locked(f"{path}.lock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        temporary = f"{path}.new"
        try:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            self.socket.bind(temporary)
            os.chmod(temporary, 0o600)
            self.socket.listen(BACKLOG)
            self._identity = _identity(temporary)
            os.rename(temporary, path)
        except OSError as problem:
            self.socket.close()
            os.close(self._lock)
            raise type(problem)(problem.errno, f"can't listen at {path}: {problem.strerror or problem}") from None

    def close(self) -> None:
        """Listen no more; the file goes if it still is ours."""
        self.socket.close()
        try:
            if _identity(self.path) == self._identity:
                os.unlink(self.path)
        except OSError:
            pass  # gone, with its directory maybe
        os.close(self._lock)


def _locked(path: str) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Taken(f"another instance serves there: {path} is locked") from None
    return lock


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
