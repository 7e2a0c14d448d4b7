# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Undoing, as deeds: walk the ledger, look at each thing, have `_restore` decide, do it, forget the entry.

Each entry is forgotten only when its thing stands as before, so a walk that was interrupted goes on in the next.
In check mode the same walk runs on what would stand: deeds are only remembered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    FileState,
    look,
    put_file,
    put_link,
    read,
    remove,
    remove_leftover,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._hazard import (
    CONTAINERD_CONFIG,
    containerd_dump_problem,
    file_hazard,
    imports,
    is_systemd_file,
    unit_of,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import (
    Kernel,
    KernelError,
    last_settings,
    sysctl_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Entry, FileChange, Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._packages import PackageError, Packages
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore import (
    NOTHING,
    Decision,
    decide_directory,
    decide_file,
    decide_module,
    decide_package,
    decide_swap,
    decide_sysctl,
    decide_unit,
    in_order,
    malformed,
    needs_reload,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run, Systemd, UnitError

ESSENTIAL_UNITS = ("containerd.service", "kubelet.service")
UNREADABLE = "containerd can't read the former configuration"


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the walk may go."""

    owners: tuple[str, ...] = ()  # empty: all
    force: bool = False
    remove_packages: bool = False
    essential: tuple[str, ...] = ESSENTIAL_UNITS
    timeout: float = 60


@dataclass(slots=True)
class Report:
    """What the walk did, or in check mode would do."""

    restored: list[dict[str, str]] = field(default_factory=list)
    kept: list[dict[str, str]] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    notify_units: list[str] = field(default_factory=list)

    def add(self, entry: Entry, decision: Decision) -> None:
        """Put a decision where the user looks for it."""
        line = {"kind": entry.kind, "name": entry.name, "owner": entry.owner, "reason": decision.reason}
        if decision.action == "problem":
            self.problems.append(f"{entry.kind} {entry.name}: {decision.reason}")
        elif decision.action != "nothing":
            {"restore": self.restored, "keep": self.kept, "refuse": self.refused}[decision.action].append(line)


class Walk:
    """One walk over one ledger."""

    def __init__(
        self, ledger: Ledger, run: Run, limits: Limits, root: str = "/", systemd: Systemd | None = None
    ) -> None:
        self.ledger = ledger
        self.run = run
        self.limits = limits
        self.root = root
        self.systemd = systemd or Systemd(run, root)
        self.kernel = Kernel(run, root)
        self.packages = Packages(run)
        self.report = Report()
        self.would_stand: dict[
            str, tuple[FileState, bytes | None]
        ] = {}  # check mode: path -> what the deed would leave
        self.would_empty: set[str] = set()  # check mode: names that would be gone from directories
        self.reload = False
        self.down: set[str] = set()  # units that were put back to rest, or could not start from what was put back

    def go(self) -> Report:
        """Undo everything that the limits allow."""
        chosen = [entry for entry in self.ledger.entries() if self._is_chosen(entry)]
        self.report.problems.extend(self.ledger.problems)
        for entry in in_order(chosen):
            if needs_reload(entry):
                self._reload()
            try:
                self.report.add(entry, self._treat(entry))
            except (OSError, UnitError, KernelError, PackageError, ValueError) as problem:
                self.report.problems.append(f"{entry.kind} {entry.name}: {problem}")
        self._reload()
        self.ledger.sweep()
        self.report.notify_units = [unit for unit in self.report.notify_units if unit not in self.down]
        return self.report

    def _is_chosen(self, entry: Entry) -> bool:
        return not self.limits.owners or entry.owner in self.limits.owners

    def _treat(self, entry: Entry) -> Decision:
        treatments = {
            "file": self._file,
            "directory": self._directory,
            "unit": self._unit,
            "sysctl": self._sysctl,
            "module": self._module,
            "swap": self._swap,
            "package": self._package,
            "resource": self._resource,
        }
        if entry.kind not in treatments:
            return Decision("problem", "unknown kind of entry; was it written by a newer version of the collection?")
        wrong = malformed(entry)
        if wrong:
            return Decision("problem", f"the entry can't be used: {wrong}")
        decision = treatments[entry.kind](entry)
        if decision.forget:
            self.ledger.forget(entry)
        return decision

    def _file(self, entry: Entry) -> Decision:
        before = FileState.from_json(entry.before)
        original, problem = None, ""
        if before.kind == "file":
            try:
                original = self.ledger.original(entry)
            except ValueError as damage:
                problem = str(damage)
        now, content = self._stands(entry.name)
        hazard = "" if problem else self._file_hazard(entry.name, before, original, content)
        decision = decide_file(entry, now, problem, hazard, self.limits.force)
        if not self.ledger.check_mode:
            remove_leftover(entry.name)
        if decision.action == "restore":
            self._put(entry.name, now, content, before, original)
            if hazard.startswith(UNREADABLE):  # forced; what runs may run on until somebody restarts it
                self.down.add("containerd.service")
                return Decision("restore", f"{hazard}; so containerd is not restarted", decision.forget)
        elif decision.action in ("keep", "refuse") and before.kind == "file":
            where = f"the original is {self.ledger.original_path(entry)}"
            return Decision(decision.action, f"{decision.reason}; {where}", decision.forget)
        return decision

    def _stands(self, path: str) -> tuple[FileState, bytes | None]:
        if path in self.would_stand:
            return self.would_stand[path]
        now = look(path)
        return now, read(path) if now.kind == "file" else None

    def _put(self, path: str, now: FileState, content: bytes | None, before: FileState, original: bytes | None) -> None:
        """Put the former thing at a path, or remember that it would be put there."""
        modes = [state.mode if state.kind == "file" else None for state in (now, before)]
        change = FileChange(path, True, _shown(now, content), _shown(before, original), path, *modes)
        if self.ledger.check_mode:
            self.would_stand[path] = (before, original)
        elif before.kind == "absent":
            remove(path)
        elif not os.path.isdir(os.path.dirname(path)):
            raise FileNotFoundError(f"its directory {os.path.dirname(path)} is gone; make it and run again")
        elif before.kind == "link":
            put_link(path, before.target, before)
        else:
            put_file(path, original or b"", before)
        self.report.diff.append(change.diff())
        inner = self._inner(path)
        self.reload = self.reload or is_systemd_file(inner)
        unit = unit_of(inner)
        if unit and unit not in self.report.notify_units and self._outlives(unit, inner, before):
            self.report.notify_units.append(unit)

    def _outlives(self, unit: str, inner: str, before: FileState) -> bool:
        """The unit is still there when this file of it is restored."""
        return before.kind != "absent" or os.path.basename(inner) != unit

    def _file_hazard(self, path: str, before: FileState, original: bytes | None, content: bytes | None) -> str:
        inner = self._inner(path)
        hazard = file_hazard(inner, original, before.target, content, self.limits.essential)
        if hazard or "containerd.service" not in self.limits.essential:
            return hazard
        if inner == CONTAINERD_CONFIG and original is not None:
            return self._containerd_problem(original)
        if inner.startswith("/etc/containerd/") and before.kind == "absent":
            config = self._stands(os.path.join(self.root, CONTAINERD_CONFIG[1:]))[1] or b""
            if imports(config, inner):
                return f"{CONTAINERD_CONFIG} still imports it, and containerd would not start without it"
        return ""

    def _containerd_problem(self, config: bytes) -> str:
        """Ask containerd itself whether it could run with a configuration."""
        place = os.path.join(self.ledger.directory, ".containerd.toml")
        put_file(place, config, FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600))
        try:
            code, out, err = self.run(["containerd", "--config", place, "config", "dump"])
        finally:
            remove(place)
        if code == 127:  # containerd is not installed: nothing to keep from starting
            return ""
        if code != 0:
            return f"{UNREADABLE}: {_last_line(err or out)}"
        return containerd_dump_problem(out)

    def _directory(self, entry: Entry) -> Decision:
        found = look(entry.name)
        names = set(os.listdir(entry.name)) if os.path.isdir(entry.name) and found.kind == "other" else None
        if names is None:
            return decide_directory("absent" if found.kind == "absent" else "other")
        gone = {os.path.basename(path) for path in self._would_be_gone() if os.path.dirname(path) == entry.name}
        decision = decide_directory("full" if names - gone else "empty")
        if decision.action == "restore":
            self.would_empty.add(entry.name)
            if not self.ledger.check_mode:
                os.rmdir(entry.name)
        return decision

    def _would_be_gone(self) -> set[str]:
        absent = {path for path, (state, dummy) in self.would_stand.items() if state.kind == "absent"}
        return absent | self.would_empty

    def _unit(self, entry: Entry) -> Decision:
        decision = decide_unit(entry, self.systemd.look(entry.name), self.limits.essential, self.limits.force)
        if decision.action != "restore":
            return decision
        if "stop" in decision.steps or "mask" in decision.steps:
            self.down.add(entry.name)
        if not self.ledger.check_mode:
            for step in decision.steps:
                self._step(step, entry.name)
        words = [f"{key}: {str(bool(entry.after.get(key))).lower()}\n" for key in sorted(entry.before)]
        former = [f"{key}: {str(bool(entry.before.get(key))).lower()}\n" for key in sorted(entry.before)]
        self._show(entry.name, "".join(set_minus(words, former)), "".join(set_minus(former, words)))
        return decision

    def _step(self, step: str, name: str) -> None:
        calls: dict[str, Any] = {
            "unmask": lambda: self.systemd.unmask(name),
            "mask": lambda: self.systemd.mask(name),
            "mask-runtime": lambda: self.systemd.mask(name, runtime=True),
            "enable": lambda: self.systemd.enable(name),
            "disable": lambda: self.systemd.disable(name),
            "start": lambda: self.systemd.start(name, self.limits.timeout),
            "stop": lambda: self.systemd.stop(name, self.limits.timeout),
        }
        calls[step]()

    def _sysctl(self, entry: Entry) -> Decision:
        instead = {path: content for path, (dummy, content) in self.would_stand.items()}
        configured = last_settings(self.kernel.configured(instead)).get(sysctl_path(entry.name))
        now = self.kernel.get(entry.name)
        decision = decide_sysctl(entry, now, configured)
        if decision.action == "restore":
            if not self.ledger.check_mode:
                self.kernel.set(entry.name, entry.before)
            self._show("running kernel", f"{entry.name} = {now}\n", f"{entry.name} = {entry.before}\n")
        return decision

    def _module(self, entry: Entry) -> Decision:
        return decide_module(entry.name in self.kernel.loaded())

    def _swap(self, entry: Entry) -> Decision:
        place = os.path.join(self.root, entry.name.lstrip("/"))
        decision = decide_swap(entry, entry.name in self._active_swap(), os.path.exists(place), self.limits.force)
        if decision.action == "restore":
            if not self.ledger.check_mode:
                command = _swap_on(entry)
                code, out, err = self.run(command)
                if code != 0:
                    raise OSError(f"{' '.join(command[:2])} failed: {_last_line(err or out)}")
            self._show("swap", "", f"{entry.name}\n")
        return decision

    def _active_swap(self) -> set[str]:
        lines = (read(os.path.join(self.root, "proc/swaps")) or b"").decode(errors="surrogateescape").splitlines()[1:]
        names = [line.split()[0] for line in lines if line.strip()]
        return {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), name) for name in names}

    def _package(self, entry: Entry) -> Decision:
        essential = any(word in entry.name for word in ("containerd", "kubelet"))
        limits = self.limits
        installed = self.packages.is_installed(entry.name)
        decision = decide_package(entry, installed, limits.remove_packages, essential, limits.force)
        if decision.action == "restore":
            if not self.ledger.check_mode:
                self.packages.remove(entry.name)
            self._show("packages", f"{entry.name}\n", "")
        return decision

    def _resource(self, entry: Entry) -> Decision:
        """A note of what an agent had the kubelet write into the Node; the API has it, not this node."""
        return NOTHING

    def _reload(self) -> None:
        if self.reload and not self.ledger.check_mode:
            try:
                self.systemd.daemon_reload()
            except UnitError as problem:
                self.report.problems.append(str(problem))
        self.reload = False

    def _show(self, header: str, before: str, after: str) -> None:
        self.report.diff.append(
            {"before_header": header, "after_header": header, "before": before, "after": after},
        )

    def _inner(self, path: str) -> str:
        """The path as the node names it, without the root of a test."""
        root = os.path.realpath(self.root)
        return path if root == "/" else path.removeprefix(root)


def set_minus(lines: list[str], others: Collection[str]) -> list[str]:
    """The lines that are not among the others."""
    return [line for line in lines if line not in others]


def _shown(state: FileState, content: bytes | None) -> bytes | None:
    return f"-> {state.target}\n".encode() if state.kind == "link" else content


def _swap_on(entry: Entry) -> list[str]:
    """The command that turns a device on; one of compressed memory is empty once off, and its unit makes it anew."""
    zram = re.fullmatch(r"/dev/(zram\d+)", entry.name)
    if zram:
        return ["systemctl", "start", f"dev-{zram[1]}.swap"]
    priority = entry.before.get("priority")
    chosen = ["-p", str(priority)] if isinstance(priority, int) and priority >= 0 else []
    return ["swapon", *chosen, "--", entry.name]


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "(no message)"
