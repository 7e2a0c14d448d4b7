# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Bring kernel modules and sysctls to a wish, now and for the next boot: `_kernel` and `_ledger` together."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import (
    Kernel,
    KernelError,
    last_settings,
    module_name,
    modules_file,
    sysctl_file,
    sysctl_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import FileChange, Ledger


@dataclass(frozen=True, slots=True)
class KernelWish:
    """What the kernel should have; `name` and `priority` name the two files."""

    name: str
    modules: tuple[str, ...] = ()
    sysctls: dict[str, str] = field(default_factory=dict)
    priority: int = 99

    @property
    def modules_path(self) -> str:
        return f"etc/modules-load.d/{self.name}.conf"

    @property
    def sysctl_path(self) -> str:
        return f"etc/sysctl.d/{self.priority:02d}-{self.name}.conf"


@dataclass(frozen=True, slots=True)
class KernelChange:
    """What was changed, or in check mode would be."""

    modules: tuple[str, ...]
    sysctls: dict[str, tuple[str | None, str]]  # key: (before, after)
    files: tuple[FileChange, ...]
    warnings: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.modules or self.sysctls or any(file.changed for file in self.files))

    def diff(self) -> list[dict[str, str]]:
        """Ansible's diffs: one for the running kernel, one for each file that changes."""
        before = [f"{key} = {'(unknown yet)' if old is None else old}\n" for key, (old, dummy) in self.sysctls.items()]
        after = [f"module {name}\n" for name in self.modules]
        after += [f"{key} = {new}\n" for key, (dummy, new) in self.sysctls.items()]
        running = {"before_header": "running kernel", "after_header": "running kernel"}
        diffs = [{**running, "before": "".join(before), "after": "".join(after)}] if before or after else []
        return diffs + [file.diff() for file in self.files if file.changed]


def bring(kernel: Kernel, ledger: Ledger, wish: KernelWish) -> KernelChange:
    """Make the kernel what `wish` says, now and after a boot; in the ledger's check mode only tell."""
    modules = _load(kernel, ledger, wish)
    files = _persist(kernel, ledger, wish)
    sysctls = _set(kernel, ledger, wish)
    return KernelChange(modules, sysctls, files, tuple(overridden(kernel, wish)))


def overridden(kernel: Kernel, wish: KernelWish) -> list[str]:
    """A sentence for each setting that a file read after ours sets to something else at boot."""
    own = os.path.join(kernel.root, wish.sysctl_path)
    others = [setting for setting in kernel.configured() if setting.file != own]
    before_ours = [setting for setting in others if not _read_later(setting.file, own)]
    later = last_settings(setting for setting in others if setting not in before_ours)
    found = []
    for key, value in wish.sysctls.items():
        winner = later.get(sysctl_path(key))
        if winner is not None and winner.value != value:
            found.append(
                f"{winner.file} is read after {own} and sets {key} = {winner.value} at the next boot; "
                f"remove that line or set {value} there"
            )
    return found


def _read_later(file: str, own: str) -> bool:
    """Files go by their last names, wherever they are; /etc/sysctl.conf is last."""
    if file.endswith("/etc/sysctl.conf"):
        return True
    return os.path.basename(file) > os.path.basename(own)


def _load(kernel: Kernel, ledger: Ledger, wish: KernelWish) -> tuple[str, ...]:
    loaded = kernel.loaded()
    missing = tuple(name for name in dict.fromkeys(wish.modules) if module_name(name) not in loaded)
    for name in missing:
        if not kernel.can_load(name):
            raise KernelError(f"Kernel {kernel.release} has no module {name}. {kernel.advice(name)}")
    for name in missing:
        ledger.note("module", module_name(name), {"loaded": False}, {"loaded": True})
        if not ledger.check_mode:
            kernel.load(name)
    return missing


def _persist(kernel: Kernel, ledger: Ledger, wish: KernelWish) -> tuple[FileChange, ...]:
    wanted = []
    if wish.modules:
        wanted.append((wish.modules_path, modules_file(wish.name, wish.modules)))
    if wish.sysctls:
        wanted.append((wish.sysctl_path, sysctl_file(wish.name, wish.sysctls)))
    return tuple(ledger.write_file(os.path.join(kernel.root, path), content, whole=True) for path, content in wanted)


def _set(kernel: Kernel, ledger: Ledger, wish: KernelWish) -> dict[str, tuple[str | None, str]]:
    changed: dict[str, tuple[str | None, str]] = {}
    for key, value in wish.sysctls.items():
        now = kernel.get(key)
        if now == value:
            continue
        changed[key] = (now, value)
        if ledger.check_mode:
            continue
        if now is None:
            raise KernelError(
                f"sysctl {key} is unknown to kernel {kernel.release}: the name is wrong, or the module that brings it "
                "is not in modules (net.bridge.* needs br_netfilter, net.netfilter.* needs nf_conntrack)"
            )
        ledger.note("sysctl", key, now, value)
        kernel.set(key, value)
    return changed
