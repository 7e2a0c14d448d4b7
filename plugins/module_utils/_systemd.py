# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Units of systemd: how they stand, what would bring them to a wish, and the calls that do it.

`steps_to` is pure. `Systemd` is the only place that calls systemctl, through a function of the caller's
(`AnsibleModule.run_command` fits), so tests put a double there. Paths are taken under `root`.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Run = Callable[[list[str]], tuple[int, str, str]]

ADMIN_DIRECTORY = "etc/systemd/system"
OTHER_DIRECTORIES = (
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
_PROPERTIES = (
    "LoadState,ActiveState,SubState,UnitFileState,FragmentPath,NeedDaemonReload,Job,Type,MainPID,NRestarts,Result,"
    "LoadError"
)
_SUFFIXES = (".service", ".socket", ".swap", ".mount", ".automount", ".target", ".timer", ".path", ".slice", ".scope")
_ENABLED = ("enabled", "enabled-runtime", "alias")
_NOT_ENABLED_BY_HAND = ("static", "generated", "transient")


class UnitError(Exception):
    """systemd refused, or a unit did not get where it should; the text ends with the unit's journal where it helps."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """How a unit stands."""

    name: str
    load: str = "not-found"  # LoadState: loaded, not-found, masked, error, bad-setting
    active: str = "inactive"  # ActiveState
    sub: str = "dead"
    enablement: str = ""  # UnitFileState
    fragment: str = ""
    stale: bool = False  # its files changed since systemd read them
    beneath_mask: bool = False  # a masked unit has a unit file that the mask covers
    enabled_beneath_mask: bool = False
    job: str = ""
    type: str = ""
    main_pid: str = ""
    result: str = ""
    crashes: int = 0  # how often systemd started a service again by itself, since it was last told to

    @property
    def masked(self) -> bool:
        return self.load == "masked" or self.enablement in ("masked", "masked-runtime")

    @property
    def exists(self) -> bool:
        """There is a unit to start, now or when the mask is off."""
        return self.beneath_mask if self.masked else self.load != "not-found"

    @property
    def running(self) -> bool:
        return self.active in ("active", "reloading", "activating", "refreshing")

    @property
    def enabled(self) -> bool:
        return self.enabled_beneath_mask if self.masked else self.enablement in _ENABLED

    @property
    def can_be_enabled(self) -> bool:
        return self.masked or self.enablement not in _NOT_ENABLED_BY_HAND

    def record(self) -> dict[str, bool | str]:
        """What the ledger keeps of a unit (kind "unit"); "masked" is "runtime" for a mask that a reboot takes off."""
        masked = "runtime" if self.enablement == "masked-runtime" else self.masked
        return {"active": self.running, "enabled": self.enabled, "masked": masked}


@dataclass(frozen=True, slots=True)
class UnitWish:
    """What a unit should be; None leaves it."""

    state: str | None = None  # started, stopped, restarted
    enabled: bool | None = None
    masked: bool | None = None


def full_name(name: str) -> str:
    """`name` with the suffix that systemctl would add."""
    return name if name.endswith(_SUFFIXES) else f"{name}.service"


def steps_to(now: UnitState, wish: UnitWish) -> list[str]:
    """The steps from here to the wish, in order; UnitError when there is no way."""
    masked_then = now.masked if wish.masked is None else wish.masked
    wants_up = wish.state in ("started", "restarted") or bool(wish.enabled)
    if wants_up and masked_then:
        raise UnitError(f"{now.name} is masked, so it can't be started or enabled; add masked: false to unmask it")
    if wants_up and not now.exists:
        raise UnitError(f"{now.name} is not installed (systemd finds no unit file of that name); install it first")
    steps = []
    if now.masked and wish.masked is False:
        steps.append("unmask")
    if wish.enabled is not None and wish.enabled != now.enabled and now.can_be_enabled and now.exists:
        steps.append("enable" if wish.enabled else "disable")
    if wish.state == "started" and not now.running:
        steps.append("start")
    if wish.state == "restarted":
        steps.append("restart")
    if wish.state == "stopped" and now.running:
        steps.append("stop")
    if wish.masked and not now.masked:
        steps.append("mask")
    return steps


def record_after(now: UnitState, steps: list[str]) -> dict[str, bool | str]:
    """What `now.record()` becomes by the steps."""
    record = now.record()
    effects = {
        "unmask": ("masked", False),
        "mask": ("masked", True),
        "enable": ("enabled", True),
        "disable": ("enabled", False),
        "start": ("active", True),
        "restart": ("active", True),
        "stop": ("active", False),
    }
    for step in steps:
        key, value = effects[step]
        record[key] = value
    return record


def parse_show(name: str, text: str) -> UnitState:
    """The state in the output of `systemctl show`."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return UnitState(
        name=name,
        load=found.get("LoadState", "not-found"),
        active=found.get("ActiveState", "inactive"),
        sub=found.get("SubState", "dead"),
        enablement=found.get("UnitFileState", ""),
        fragment=found.get("FragmentPath", ""),
        stale=found.get("NeedDaemonReload") == "yes",
        job="" if found.get("Job", "0") == "0" else found["Job"],
        type=found.get("Type", ""),
        main_pid=found.get("MainPID", ""),
        result=found.get("Result", ""),
        crashes=int(found["NRestarts"]) if found.get("NRestarts", "").isdigit() else 0,
    )


class Systemd:
    """The calls."""

    def __init__(
        self,
        run: Run,
        root: str = "/",
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.run = run
        self.root = root
        self.clock = clock
        self.sleep = sleep

    def look(self, name: str) -> UnitState:
        """How a unit stands now."""
        name = full_name(name)
        code, out, err = self.run(["systemctl", "show", "-p", _PROPERTIES, "--", name])
        if code != 0:
            raise UnitError(f"systemctl show {name} failed: {(err or out).strip()}; is this node run by systemd?")
        state = parse_show(name, out)
        if not state.masked:
            return state
        beneath = any(_is_unit_file(os.path.join(self.root, place, name)) for place in OTHER_DIRECTORIES)
        if not self.masked_by_admin(name):  # masked in /run, above which a file of the administrator's may wait
            beneath = beneath or _is_unit_file(self.admin_path(name))
        wanted = glob.glob(os.path.join(self.root, ADMIN_DIRECTORY, "*.*s", glob.escape(name)))
        pulled_in = any(os.path.dirname(path).endswith((".wants", ".requires")) for path in wanted)
        return replace(state, beneath_mask=beneath, enabled_beneath_mask=pulled_in)

    def admin_path(self, name: str) -> str:
        """Where the administrator's unit file, or the mask, would be."""
        return os.path.join(self.root, ADMIN_DIRECTORY, full_name(name))

    def masked_by_admin(self, name: str) -> bool:
        """/etc has the mask: a link to /dev/null, or an empty file."""
        path = self.admin_path(name)
        return os.path.lexists(path) and not _is_unit_file(path)

    def has_empty_file(self, name: str) -> bool:
        """/etc has an empty file, which masks, but not as systemctl would do it."""
        path = self.admin_path(name)
        return os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) == 0

    def has_real_file(self, name: str) -> bool:
        """/etc has a unit file that a mask would have to replace (systemctl refuses that; the ledger can keep it)."""
        return _is_unit_file(self.admin_path(name))

    def daemon_reload(self) -> None:
        self._must(["daemon-reload"])

    def mask(self, name: str, *, runtime: bool = False) -> None:
        """Mask a unit, until the next boot with `runtime`."""
        name = full_name(name)
        if self.has_real_file(name):
            raise UnitError(f"{self.admin_path(name)} is a unit file, and a mask would lose it; move it away first")
        self._must(["mask", *(["--runtime"] if runtime else []), name])

    def unmask(self, name: str) -> None:
        """Take the mask off, the one in /run too. A file that is not a mask stays."""
        name = full_name(name)
        if self.masked_by_admin(name):
            self._must(["unmask", name])
        if self.look(name).masked:
            self._must(["unmask", "--runtime", name])

    def enable(self, name: str) -> None:
        self._must(["enable", full_name(name)])

    def disable(self, name: str) -> None:
        self._must(["disable", full_name(name)])

    def start(self, name: str, timeout: float = 60) -> UnitState:
        return self._up("start", full_name(name), timeout)

    def restart(self, name: str, timeout: float = 60) -> UnitState:
        return self._up("restart", full_name(name), timeout)

    def stop(self, name: str, timeout: float = 60) -> UnitState:
        """Stop a unit and wait until it is down."""
        name = full_name(name)
        self._must(["stop", "--no-block", name])
        deadline = self.clock() + timeout
        while True:
            state = self.look(name)
            if not state.job and state.active in ("inactive", "failed"):
                return state
            if self.clock() >= deadline:
                raise UnitError(f"{name} is still {state.active} ({state.sub}) {timeout:g} s after stop")
            self.sleep(0.2)

    def journal(self, name: str, lines: int = 20) -> str:
        """The last lines that a unit logged."""
        command = ["journalctl", "-u", full_name(name), "-n", str(lines), "--no-pager", "-o", "short-iso"]
        code, out, err = self.run(command)
        return out.strip() if code == 0 else f"(journalctl failed: {err.strip()})"

    def order_restart(self, name: str) -> None:
        """Have a unit started or restarted, with its count of crashes at zero; the caller waits."""
        name = full_name(name)
        self.run(["systemctl", "reset-failed", name])
        self._must(["restart", "--no-block", name])

    def _up(self, verb: str, name: str, timeout: float) -> UnitState:
        if self.look(name).active == "failed":
            self.run(["systemctl", "reset-failed", name])  # or a start limit that was hit forbids the start
        code, out, err = self.run(["systemctl", verb, "--no-block", name])
        if code != 0:
            raise UnitError(f"systemctl {verb} {name} failed: {(err or out).strip()}\n{self.journal(name)}")
        return self.wait_active(name, timeout, verb)

    def wait_active(self, name: str, timeout: float = 60, verb: str = "start") -> UnitState:
        """Wait until a unit is up and stays so; UnitError with its journal when it fails or time is up."""
        deadline = self.clock() + timeout
        while True:
            state = self.look(name)
            if not state.job and state.active == "active" and self._stays(state):
                return state
            if not state.job and state.type == "oneshot" and state.active == "inactive" and state.result == "success":
                return state
            if not state.job and state.active == "failed":
                raise UnitError(f"{name} failed ({state.result}) after {verb}; its journal:\n{self.journal(name)}")
            if self.clock() >= deadline:
                raise UnitError(
                    f"{name} is {state.active} ({state.sub}) {timeout:g} s after {verb}; its journal:\n"
                    f"{self.journal(name)}"
                )
            self.sleep(0.2)

    def _stays(self, state: UnitState) -> bool:
        """A service that never tells when it is ready counts as active once it lived a second."""
        if state.type not in ("simple", "exec", "idle"):
            return True
        self.sleep(1)
        later = self.look(state.name)
        return later.active == "active" and later.main_pid == state.main_pid

    def _must(self, arguments: list[str]) -> None:
        code, out, err = self.run(["systemctl", *arguments])
        if code != 0:
            raise UnitError(f"systemctl {' '.join(arguments)} failed: {(err or out).strip()}")


def _is_unit_file(path: str) -> bool:
    """A file with content, or a link to one; a link to /dev/null and an empty file are masks."""
    if os.path.realpath(path) == "/dev/null":
        return False
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False
