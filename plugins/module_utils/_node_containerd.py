# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The container runtime of a node: containerd, and whether it could start with the config it has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import find_binary, parse_version
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import under
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

Run = Callable[[list[str]], tuple[int, str, str]]

CONFIG = "/etc/containerd/config.toml"


@dataclass(frozen=True, slots=True)
class Containerd:
    binary: str
    version: str
    unit: UnitState | None
    config_error: str  # containerd's own words; empty: it reads its config
    systemd_cgroup: bool | None  # what runc is told; None: not said
    cri_disabled: bool


def parse_systemd_cgroup(dump: str) -> bool | None:
    """SystemdCgroup of the runc runtime in `containerd config dump`; other runtimes have the key too."""
    table = ""
    for line in dump.splitlines():
        text = line.strip()
        if text.startswith("["):
            table = text
        elif re.search(r"""\.runtimes\.["']?runc["']?\.options\]""", table):
            found = re.match(r"SystemdCgroup\s*=\s*(true|false)", text)
            if found:
                return found.group(1) == "true"
    return None


def parse_cri_disabled(dump: str) -> bool:
    """Whether `disabled_plugins` of the dump has a CRI plugin, by any of its names."""
    found = re.search(r"^disabled_plugins\s*=\s*\[(.*?)\]", dump, re.MULTILINE | re.DOTALL)
    names = re.findall(r"""["']([^"']*)["']""", found.group(1)) if found else []
    return any(name == "cri" or ".cri" in name for name in names)


def read_containerd(root: str, run: Run, unit: UnitState | None, config: str = CONFIG) -> Containerd:
    binary = find_binary(root, "containerd")
    version = dump = error = ""
    if binary:
        _rc, out, _err = run([binary, "--version"])
        version = parse_version(out)
        rc, dump, err = run([binary, "--config", config, "config", "dump"])
        if rc != 0 and not os.path.lexists(under(root, config)):  # the daemon is content, `dump` of 1.x is not
            rc, dump, err = run([binary, "config", "default"])
        if rc != 0:
            error = last_line(err) or last_line(dump) or f"exit code {rc}"
    return Containerd(
        binary=binary,
        version=version,
        unit=unit,
        config_error=error,
        systemd_cgroup=None if error else parse_systemd_cgroup(dump),
        cri_disabled=not error and parse_cri_disabled(dump),
    )


def last_line(text: str) -> str:
    """The last line that says something: programs end with the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
