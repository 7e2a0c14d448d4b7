# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Doubles for the tests of the ledger and what is built on it: a kill at a chosen system call, and a systemd."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

CHANGING_CALLS = (
    "open",
    "write",
    "fsync",
    "replace",
    "unlink",
    "symlink",
    "mkdir",
    "rmdir",
    "chmod",
    "fchmod",
    "chown",
    "fchown",
    "setxattr",
)


class Killed(BaseException):
    """The process is gone: no handler may run on, as after SIGKILL."""


@contextlib.contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """Kill at the call of this number (from 1) that could change a file system; 0 never. Yields the calls made.

    A killed write leaves half of its bytes. After the kill each further call fails too, so that no cleanup of the
    code under test can pretend to run in a dead process.
    """
    calls: list[str] = []
    dead = False

    def wrap(name: str) -> Any:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal dead
            if dead:
                raise Killed
            calls.append(name)
            if len(calls) == number:
                dead = True
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                raise Killed
            return real(*args, **kwargs)

        return call

    with contextlib.ExitStack() as stack:
        for name in CHANGING_CALLS:
            stack.enter_context(mock.patch.object(os, name, wrap(name)))
        # A dead process has no open files; the kernel closes them.
        with contextlib.suppress(Killed):
            yield calls


@dataclass
class FakeUnit:
    """One unit: its file in the tree decides whether it is there and masked, the rest is here."""

    active: str = "inactive"
    enablement: str = "disabled"
    type: str = "notify"
    comes_up: bool = True
    result: str = "success"


@dataclass
class FakeSystemd:
    """Answers systemctl and journalctl over a tree in a temporary directory."""

    root: Path
    units: dict[str, FakeUnit] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    now: float = 0.0

    def install(self, name: str, **fields: Any) -> FakeUnit:
        """A unit file in /usr/lib, as from a package."""
        place = self.root / "usr/lib/systemd/system"
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("[Unit]\n")
        self.units[name] = FakeUnit(**fields)
        if self.units[name].enablement == "enabled":
            self._wants(name).parent.mkdir(parents=True, exist_ok=True)
            self._wants(name).symlink_to(f"/usr/lib/systemd/system/{name}")
        return self.units[name]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def changes(self) -> list[str]:
        """The calls that change something."""
        return [call for call in self.calls if not call.startswith(("show", "journalctl"))]

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "journalctl":
            self.calls.append("journalctl")
            return 0, f"last words of {command[2]}\n", ""
        if command[0] != "systemctl":
            self.calls.append(" ".join(command))
            return 127, "", f"{command[0]}: No such file or directory"
        verb, *rest = command[1:]
        options = [word for word in rest if word.startswith("--") and word != "--"]
        self.calls.append(" ".join([verb, *(w for w in rest if w not in ("-p", "--", "--no-block") and "," not in w)]))
        name = rest[-1] if rest else ""
        answer: tuple[int, str, str] = getattr(self, "_" + verb.replace("-", "_"))(name, options)
        return answer

    def _admin(self, name: str, options: list[str]) -> Path:
        place = self.root / ("run/systemd/system" if "--runtime" in options else "etc/systemd/system")
        place.mkdir(parents=True, exist_ok=True)
        return place / name

    def _wants(self, name: str) -> Path:
        return self.root / "etc/systemd/system/multi-user.target.wants" / name

    def _mask_of(self, name: str) -> str:
        for place, word in (("etc", "masked"), ("run", "masked-runtime")):
            path = self.root / place / "systemd/system" / name
            if path.is_symlink() and os.readlink(path) == "/dev/null":
                return word
            if path.is_file():
                return "" if path.stat().st_size else word
        return ""

    def _show(self, name: str, options: list[str]) -> tuple[int, str, str]:
        unit = self.units.get(name)
        mask = self._mask_of(name)
        there = (self.root / "usr/lib/systemd/system" / name).exists() or (
            self.root / "etc/systemd/system" / name
        ).exists()
        load = "masked" if mask else "loaded" if there else "not-found"
        unit = unit or FakeUnit()
        state = mask or (unit.enablement if there else "")
        text = (
            f"Type={unit.type}\nLoadState={load}\nActiveState={unit.active}\nSubState=x\nUnitFileState={state}\n"
            f"FragmentPath=\nNeedDaemonReload=no\nMainPID=7\nResult={unit.result}\n"
        )
        return 0, text, ""

    def _start(self, name: str, options: list[str]) -> tuple[int, str, str]:
        if self._mask_of(name):
            return 1, "", f"Failed to start {name}: Unit {name} is masked."
        unit = self.units[name]
        unit.active = "active" if unit.comes_up else "failed"
        unit.result = "success" if unit.comes_up else "exit-code"
        return 0, "", ""

    _restart = _start

    def _stop(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self.units[name].active = "inactive"
        return 0, "", ""

    def _enable(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self._wants(name).parent.mkdir(parents=True, exist_ok=True)
        if not self._wants(name).is_symlink():
            self._wants(name).symlink_to(f"/usr/lib/systemd/system/{name}")
        self.units[name].enablement = "enabled"
        return 0, "", ""

    def _disable(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self._wants(name).unlink(missing_ok=True)
        self.units[name].enablement = "disabled"
        return 0, "", ""

    def _mask(self, name: str, options: list[str]) -> tuple[int, str, str]:
        path = self._admin(name, options)
        if path.exists() and not path.is_symlink():
            return 1, "", f"Failed to mask unit: File {path} already exists."
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
        return 0, "", ""

    def _unmask(self, name: str, options: list[str]) -> tuple[int, str, str]:
        path = self._admin(name, options)
        if path.is_symlink():
            path.unlink()
        return 0, "", ""

    def _daemon_reload(self, name: str, options: list[str]) -> tuple[int, str, str]:
        return 0, "", ""

    def _reset_failed(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self.units[name].active = "inactive"
        return 0, "", ""
