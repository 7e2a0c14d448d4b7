# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the tool tells the person who waits: one line a phase with its time, and errors that explain themselves."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


class ClusterError(Exception):
    """Something that the user can read and act on; printed without a traceback."""


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Print the phase's name and, when it ends, how long it took."""
    began = time.monotonic()
    print(f"  {name} …", file=sys.stderr, flush=True)
    yield
    print(f"  {name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def tail(path: Path, lines: int = 25) -> str:
    """The end of a log, for an error message; says so when there is none."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - 65536))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


def wait_until(
    what: str,
    condition: Callable[[], bool],
    limit: float,
    explain: Callable[[], str] = lambda: "",
    pause: float = 0.2,
) -> None:
    """Wait for a condition, at most `limit` seconds; then fail with what `explain` finds in the logs."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not within {limit:.0f} s\n{explain()}".rstrip())
        time.sleep(pause)
