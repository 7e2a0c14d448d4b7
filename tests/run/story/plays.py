# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a running playbook says, as progress: a line for each play, and in the end what it did to each host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .plot import clock

_HEAD = re.compile(r"^(PLAY|TASK) \[(.*)\] \**$")
_RECAP = re.compile(r"^PLAY RECAP \**$")
_HOST = re.compile(r"^(\S+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+) ")


@dataclass(frozen=True, slots=True)
class Played:
    """A playbook that ended well: the seconds that it and each of its plays took, and how many tasks changed a host."""

    book: str
    seconds: float
    plays: tuple[tuple[str, float], ...]
    changed: int


def timed(book: str, begin: float, heard: Sequence[tuple[str, float]], end: float, changed: int) -> Played:
    """A playbook whose plays were heard of at these times."""
    ends = [*(at for _name, at in heard[1:]), end]
    plays = tuple((name, until - at) for (name, at), until in zip(heard, ends, strict=False))
    return Played(book, end - begin, plays, changed)


def table(played: Sequence[Played]) -> str:
    """How long each took, play by play."""
    lines = []
    for one in played:
        lines.append(f"{clock(one.seconds):>6}  {one.book}, {one.changed} changed")
        lines += [f"{clock(seconds):>14}  {name}" for name, seconds in one.plays]
    return "\n".join(lines)


class Progress:
    """Takes the lines of ansible-playbook's output one after the other."""

    def __init__(self) -> None:
        self.play = ""
        self.task = ""
        self.tasks = 0
        self.recap: list[str] = []
        self.changed = 0  # tasks, over all hosts
        self._ended = False

    def line(self, text: str) -> Iterator[str]:
        """What is worth saying about the line."""
        text = text.rstrip()
        head = _HEAD.match(text)
        if head is not None and head[1] == "PLAY":
            if head[2] != self.play:  # each batch of hosts is a play of its own
                self.play = head[2]
                yield head[2]
        elif head is not None:
            self.task = head[2]
            self.tasks += 1
        elif _RECAP.match(text):
            self._ended = True
        elif self._ended:
            host = _HOST.match(text)
            if host is not None:
                self.changed += int(host[3])
                self.recap.append(f"{host[1]}: {host[2]} ok, {host[3]} changed, {int(host[4]) + int(host[5])} failed")


def why(log: str, most: int = 12) -> list[str]:
    """The part of a failed run's output that tells most: from its first fatal line on."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    first = next((n for n, line in enumerate(lines) if line.startswith(("fatal:", "[ERROR]", "ERROR!"))), None)
    return lines[-most:] if first is None else lines[max(0, first - 1) : first - 1 + most]
