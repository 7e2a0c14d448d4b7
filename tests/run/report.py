# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a run says: one line a step with its time, the output of what failed, and a last line that counts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

NAME_WIDTH = 58


class CannotGoOn(Exception):
    """Something this run needs can't be had; the text says what, what was tried and what to do."""


@dataclass(frozen=True, slots=True)
class Count:
    """Tests that passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.skipped


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended: what it counted, a word or two about it, and what to show where it failed."""

    count: Count
    note: str = ""
    log: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing in it failed."""
        return self.count.failed == 0


class Report:
    """The lines of a run, in the order in which steps end. Threads may report at once."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._guard = threading.Lock()
        self._began = time.monotonic()
        self.count = Count()
        self.set_up: list[tuple[str, float]] = []  # each step that was done, and its seconds

    def say(self, text: str) -> None:
        """A line of plain text."""
        with self._guard:
            print(text, file=self._out, flush=True)

    @contextmanager
    def setting_up(self, name: str) -> Iterator[list[str]]:
        """A set-up step; the block may append to the list what is worth saying beside its time."""
        began = time.monotonic()
        notes: list[str] = []
        try:
            yield notes
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                self._line("set-up", name, time.monotonic() - began, "FAILED")
            raise
        self.set_up.append((name, time.monotonic() - began))
        self._line("set-up", name, self.set_up[-1][1], ", ".join(notes))

    def ended(self, part: str, name: str, seconds: float, outcome: Outcome) -> None:
        """A step of a part ended: count it, and show the output of what failed."""
        with self._guard:
            self.count += outcome.count
        verdict = "ok" if outcome.ok else "FAILED"
        if outcome.count.total == 0:
            verdict = "nothing"
        self._line(part, name, seconds, ": ".join(filter(None, (verdict, outcome.note))))
        if not outcome.ok and outcome.log is not None:
            self.say(outcome.log.read_text(errors="replace").rstrip() + "\n")

    def count_failure(self) -> None:
        """Something broke outside a test."""
        self.count += Count(failed=1)

    def finish(self) -> int:
        """The last line; the exit status."""
        self._line("all", "", time.monotonic() - self._began, "")
        self.say(str(self.count))
        return 1 if self.count.failed else 0

    def _line(self, part: str, name: str, seconds: float, text: str) -> None:
        self.say(f"{f'{part}  {name}':<{NAME_WIDTH}} {seconds:7.1f} s  {text}".rstrip())
