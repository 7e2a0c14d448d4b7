# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a node with one agent: releases, a systemd that starts processes from what is on disk, their pages."""

from __future__ import annotations

import dataclasses
import json
import posix  # what the node does by itself is no call that a test can kill
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_absent import take_away
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_service import (
    Agent,
    Node,
    Outcome,
    bring_up,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import (
    FakeSystemd,
    FakeUnit,
)

UNIT = "colocation-device-plugin.service"


def release_double(release: str, agents: dict[str, str]) -> Release:
    """The record of a release that has no files."""
    return Release(release, "0.1.0", "3.13", "x86_64", "", agents, 0, 0)


@dataclass(frozen=True)
class Process:
    """What a process was started with; these it keeps."""

    pid: int
    release: str
    config: bytes
    unit: bytes


@dataclass
class AgentNode(FakeSystemd):
    """`crashing` releases end at once, again and again; `mute` ones run and never get healthy."""

    crashing: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    refused_config: bytes = b"bad"
    process: Process | None = None
    loaded: bytes = b""  # the unit as systemd read it last
    crashes: int = 0
    looping: bool = False
    starts: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "opt/colocation"

    @property
    def config(self) -> Path:
        return self.root / "etc/colocation/device-plugin.yaml"

    @property
    def unit(self) -> Path:
        return self.root / "etc/systemd/system" / UNIT

    @property
    def state_dir(self) -> Path:
        return self.root / "var/lib/colocation"

    def bring(self, release: str, code: str = "") -> None:
        """What the role agent_runtime does; the first release becomes the current one."""
        place = self.home / "releases" / release
        place.mkdir(parents=True)
        agents = {"device_plugin": code or f"code of {release}"}
        (place / "RELEASE.json").write_text(json.dumps(release_double(release, agents).to_json()))
        if not (self.home / "current").is_symlink():
            (self.home / "current").symlink_to(f"releases/{release}")
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "scratch").mkdir(exist_ok=True)
        (self.root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
        self.units.setdefault(UNIT, FakeUnit())

    def agent(self, release: str, config: str = "devices: 10\n", unit: str = "[Service]\n", **fields: Any) -> Agent:
        wanted = Agent(
            "device_plugin", UNIT, unit.encode(), str(self.config), config.encode(), 0o600, release,
            ("python3", "{config}"), "http://127.0.0.1:9461/healthz", timeout=10, settle=2,
        )  # fmt: skip
        return dataclasses.replace(wanted, **fields)

    def node(self, check_mode: bool = False) -> Node:
        systemd = Systemd(self, str(self.root), clock=self.clock, sleep=self.sleep)
        ledger = Ledger(str(self.state_dir), "device_plugin", check_mode)
        store = RecordStore(str(self.state_dir), "device_plugin")

        def away() -> list[str]:
            return take_away(UNIT, systemd, ledger, store, [], 10).report.problems

        return Node(systemd, ledger, store, str(self.home), self.ask, str(self.root / "proc"), away)

    def run(self, agent: Agent, check_mode: bool = False) -> Outcome:
        """One call of the module."""
        scratch = f"{self.root}/scratch/{len(self.calls)}"  # Ansible makes a new one for each run, too
        posix.mkdir(scratch)
        return bring_up(agent, self.node(check_mode), scratch)

    def runs(self, agent: Agent) -> bool:
        """A process was started with just what is wanted (code is compared, not the release)."""
        found = self.process
        if found is None or self._code(found.release) != self._code(agent.release):
            return False
        return (found.config, found.unit) == (agent.config_content, agent.unit_content)

    def current(self) -> str:
        return (self.home / "current").readlink().name

    def crash(self) -> None:
        """The process ends, and systemd starts the next from what is on disk now."""
        if self.process is not None:
            self._spawn()

    def reboot(self) -> None:
        """Everything ends; what is enabled starts."""
        self.process = None
        self.crashes, self.looping = 0, False
        self._daemon_reload("", [])
        if self.units[UNIT].enablement == "enabled" and self.unit.exists():
            self._spawn()

    def ask(self, url: str) -> tuple[int, str]:
        if self.process is None:
            return 0, "Connection refused"
        return (503, "not watched\n") if self.process.release in self.mute else (200, "ok\n")

    def _code(self, release: str) -> str:
        document = json.loads((self.home / "releases" / release / "RELEASE.json").read_text())
        return str(document["agents"]["device_plugin"])

    def _spawn(self) -> None:
        self.process, self.looping = None, False
        release = self.current() if (self.home / "current").exists() else ""
        if not release or release in self.crashing or not self.config.exists():
            self.looping = True
            return
        pid = len(self.starts) + 100
        self.starts.append(release)
        (self.root / "proc" / str(pid)).mkdir()
        posix.symlink(str(self.home / "releases" / release), str(self.root / "proc" / str(pid) / "cwd"))
        self.process = Process(pid, release, self.config.read_bytes(), self.loaded)

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "env":
            content = Path(command[-1]).read_bytes()
            return (78, "", f"{command[-1]}: devices is wrong\n") if content == self.refused_config else (0, "", "")
        return super().__call__(command)

    def _show(self, name: str, options: list[str]) -> tuple[int, str, str]:
        if name != UNIT:
            return super()._show(name, options)
        if self.looping:
            self.crashes += 1
            state = "ActiveState=activating\nSubState=auto-restart\nMainPID=0"
        elif self.process is not None:
            state = f"ActiveState=active\nSubState=running\nMainPID={self.process.pid}"
        else:
            state = "ActiveState=inactive\nSubState=dead\nMainPID=0"
        self.units[UNIT].active = state.split("\n", 1)[0].split("=")[1]
        code, text, err = super()._show(name, options)
        kept = "\n".join(line for line in text.splitlines() if not line.startswith(("ActiveS", "SubS", "MainPID")))
        return code, f"{kept}\n{state}\nNRestarts={self.crashes}\n", err

    def _restart(self, name: str, options: list[str]) -> tuple[int, str, str]:
        if not self.unit.exists():
            return 5, "", f"Unit {name} not found."
        self._spawn()
        return 0, "", ""

    def _stop(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self.process, self.looping = None, False
        return 0, "", ""

    def _daemon_reload(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self.loaded = self.unit.read_bytes() if self.unit.is_file() else b""
        return 0, "", ""

    def _reset_failed(self, name: str, options: list[str]) -> tuple[int, str, str]:
        self.crashes = 0
        return 0, "", ""
