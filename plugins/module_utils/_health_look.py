# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Looks at all of a node side by side, each part in a thread that is left behind when its time is over.

A half-dead node is the normal case here: commands that hang, mounts that hang (no signal ends such a read, so no time
limit but a thread's does), files that hold anything. So each part answers, or says why not, and none takes another
with it. The parts themselves are in `_health_parts`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Part = Callable[[], Any]


class Gathering:
    """What the parts answered, and why others did not."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.blind: dict[str, str] = {}

    def gather(self, parts: Mapping[str, Part], seconds: float) -> None:
        """Run all parts at once; after `seconds` those that are still at it count as hung."""
        results: dict[str, tuple[Any, str]] = {}
        threads = {
            name: threading.Thread(target=_run, args=(name, part, results), name=f"look at {name}", daemon=True)
            for name, part in parts.items()
        }
        end = time.monotonic() + seconds
        for thread in threads.values():
            thread.start()
        for thread in threads.values():
            thread.join(max(0.0, end - time.monotonic()))
        for name in parts:
            value, problem = results.get(name, (None, f"no answer within {seconds:g} s"))
            if problem:
                self.blind[name] = problem
            else:
                self.values[name] = value


def _run(name: str, part: Part, results: dict[str, tuple[Any, str]]) -> None:
    try:
        results[name] = part(), ""
    except Exception as problem:  # whatever a broken node does to one part, the others still tell
        results[name] = None, f"{type(problem).__name__}: {problem}"
