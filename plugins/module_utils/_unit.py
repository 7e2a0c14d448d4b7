# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Bring a unit to a wish and have the ledger remember how it stood: what `_systemd` and `_ledger` do together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import remove
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import (
    Systemd,
    UnitState,
    UnitWish,
    full_name,
    record_after,
    steps_to,
)


@dataclass(frozen=True, slots=True)
class UnitChange:
    """What was done with one unit, or in check mode would be."""

    name: str
    steps: tuple[str, ...]
    before: dict[str, bool | str]
    after: dict[str, bool | str]

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    def diff(self) -> dict[str, str]:
        """Ansible's diff: the lines that differ, and a restart."""
        keys = [key for key in self.before if self.before[key] != self.after[key]]
        return {
            "before_header": self.name,
            "after_header": self.name,
            "before": "".join(f"{key}: {_word(self.before[key])}\n" for key in keys),
            "after": "".join(f"{key}: {_word(self.after[key])}\n" for key in keys)
            + ("restarted\n" if "restart" in self.steps else ""),
        }


def bring(
    systemd: Systemd,
    ledger: Ledger,
    name: str,
    wish: UnitWish,
    *,
    timeout: float = 60,
    assume_installed: bool = False,
    remember: bool = True,
) -> UnitChange:
    """Make `name` what `wish` says; in the ledger's check mode only tell. Without `remember` nothing puts it back.

    `assume_installed` matters in check mode alone: a unit that is missing counts as one that an earlier task, which
    check mode did not run, would have installed.
    """
    name = full_name(name)
    now = systemd.look(name)
    start = _as_if_installed(now) if assume_installed and ledger.check_mode else now
    steps = steps_to(start, wish)
    after = record_after(start, steps)
    if ledger.check_mode:
        return UnitChange(name, tuple(steps), now.record(), after)
    if remember and after != now.record():
        ledger.note("unit", name, now.record(), after)
    if now.stale and {"start", "restart", "stop"} & set(steps):
        systemd.daemon_reload()
    for step in steps:
        _take(step, systemd, ledger, name, timeout, remember)
    if wish.state == "started" and "start" not in steps and now.active != "active":
        systemd.wait_active(name, timeout)
    return UnitChange(name, tuple(steps), now.record(), systemd.look(name).record() if steps else now.record())


def _as_if_installed(now: UnitState) -> UnitState:
    if now.exists:
        return now
    return replace(now, beneath_mask=True) if now.masked else replace(now, load="loaded", enablement="disabled")


def _take(step: str, systemd: Systemd, ledger: Ledger, name: str, timeout: float, remember: bool) -> None:
    """One step. The ledger replaces files where systemctl would lose or refuse them."""
    if step == "mask" and systemd.has_real_file(name):
        ledger.make_link(systemd.admin_path(name), "/dev/null")
        systemd.daemon_reload()
    elif step == "unmask" and systemd.has_empty_file(name):
        (ledger.remove_file if remember else remove)(systemd.admin_path(name))
        systemd.daemon_reload()
    elif step == "mask":
        systemd.mask(name)
    elif step == "unmask":
        systemd.unmask(name)
    elif step == "enable":
        systemd.enable(name)
    elif step == "disable":
        systemd.disable(name)
    elif step == "start":
        systemd.start(name, timeout)
    elif step == "restart":
        systemd.restart(name, timeout)
    elif step == "stop":
        systemd.stop(name, timeout)


def _word(value: bool | str) -> str:
    return value if isinstance(value, str) else str(value).lower()
