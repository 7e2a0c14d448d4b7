# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A lock on a directory itself: it leaves no file behind, and goes when its process does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

LOCK_SECONDS = 120  # more than another run takes for an agent, way back included
POLL_SECONDS = 0.5


@contextlib.contextmanager
def locked(
    directory: str,
    make: Callable[[], None],
    timeout: float,
    busy: Exception,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold the directory, which `make` makes where it is missing; raise `busy` where another held it for `timeout`
    seconds. A run whose controller was killed goes on for a while on the node."""
    deadline = clock() + timeout
    while (handle := _try(directory, make)) is None:
        if clock() >= deadline:
            raise busy
        sleep(POLL_SECONDS)
    try:
        yield
    finally:
        os.close(handle)


def _try(directory: str, make: Callable[[], None]) -> int | None:
    make()
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(directory)):
            return handle
    except (BlockingIOError, FileNotFoundError):  # held; or just removed by its holder
        pass
    os.close(handle)
    return None
