# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the raw probe of a host says: can we log in, are we root, which Pythons are there.

The probe is a shell script because it must work where no Python is. Its lines carry a mark, so that banners and
warnings of the login don't matter, and a last line, so that a cut answer is not taken for a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MARK = "preflight:"
LEAST_PYTHON = (3, 10)
NOT_A_NAME = ("auto", "auto_silent", "auto_legacy", "auto_legacy_silent")


@dataclass(frozen=True, slots=True)
class Python:
    path: str
    version: tuple[int, ...]

    @property
    def new_enough(self) -> bool:
        return self.version[:2] >= LEAST_PYTHON

    def __str__(self) -> str:
        return f"{self.path} ({'.'.join(map(str, self.version))})"


@dataclass(frozen=True, slots=True)
class Probe:
    """`trouble` is empty, or why no answer can be used: "unreachable", "hangs" or "no-root"."""

    trouble: str
    words: str  # of Ansible or the host about that trouble
    uid: int | None
    named: str  # the interpreter that the inventory insists on; empty where Ansible may look for one
    pythons: tuple[Python, ...]


def parse_probe(result: Mapping[str, Any]) -> Probe:
    """Read the registered result of the probe task."""
    lines = [line.strip() for line in str(result.get("stdout", "")).splitlines()]
    marked = [line.removeprefix(MARK).split() for line in lines if line.startswith(MARK)]
    said = [line for line in marked if line]
    words = _words(result)
    if result.get("unreachable"):
        return Probe("unreachable", words, None, "", ())
    if ["end"] not in said:
        hangs = bool(result.get("timedout")) or "timed out" in words.lower()
        return Probe("hangs" if hangs else "no-root", words, None, "", ())
    uid = next((int(line[1]) for line in said if line[:1] == ["uid"] and len(line) == 2 and line[1].isdigit()), None)
    # The last word, for the likes of "/usr/bin/env python3".
    named = next((line[-1] for line in said if line[0] == "named" and len(line) > 1), "")
    return Probe("", "", uid, "" if named in NOT_A_NAME else named, _pythons(said))


def choose_python(probe: Probe) -> Python | None:
    """The one that modules will run with: the named one, or the newest that is new enough."""
    usable = [python for python in probe.pythons if python.new_enough]
    if probe.named:
        names = (probe.named, "/" + probe.named)
        return next((python for python in usable if python.path == names[0] or python.path.endswith(names[1])), None)
    return max(usable, key=lambda python: python.version, default=None)


def _pythons(said: list[list[str]]) -> tuple[Python, ...]:
    found: dict[str, Python] = {}
    for line in said:
        if len(line) == 3 and line[0] == "python" and re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})+", line[2]):
            found.setdefault(line[1], Python(line[1], tuple(int(part) for part in line[2].split("."))))
    return tuple(found.values())


def _words(result: Mapping[str, Any]) -> str:
    """What was said of a failure, in one line, without the words that Ansible puts before every such line."""
    for key in ("msg", "stderr", "stdout"):
        text = " ".join(str(result.get(key, "")).split())
        text = text.removeprefix("Task failed: ").removeprefix("Premature end of stream waiting for become success. ")
        if text and text != "non-zero return code":
            return text.removeprefix(">>> Standard Error ")
    return "no words were given"
