# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When to try again: the waits between tries, each about twice the last, spread by chance so that nodes don't march in
step. No clock here: the caller sleeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits of one kind of work."""

    first: float = 0.25
    most: float = 10.0
    tries: int = 4

    def wait(self, failures: int, chance: float, asked: float | None = None) -> float | None:
        """Seconds until the next try after so many failures, None when it was the last; `chance` is from 0 to 1.
        What the server asked for is the least."""
        if failures >= self.tries:
            return None
        full = min(self.first * 2.0 ** min(failures - 1, 30), self.most)
        wait = full * (0.5 + chance / 2)
        return wait if asked is None else max(wait, min(asked, self.most))
