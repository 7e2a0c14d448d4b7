# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What kind of machine a node is: system, kernel, architecture, first process, who we are on it."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """The lines of os-release that tell one system from another."""

    id: str
    version_id: str
    id_like: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Machine:
    hostname: str
    machine_id: str
    architecture: str
    kernel: str
    first_process: str
    uid: int
    python: str
    memory_mib: int  # 0 where it can't be read
    system: OperatingSystem


def parse_os_release(text: str) -> OperatingSystem:
    """Read os-release; a line that no shell would accept is left out."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, raw = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        try:
            values[key] = " ".join(shlex.split(raw))
        except ValueError:
            continue
    return OperatingSystem(
        id=values.get("ID", "").lower(),
        version_id=values.get("VERSION_ID", ""),
        id_like=tuple(values.get("ID_LIKE", "").lower().split()),
        name=values.get("PRETTY_NAME") or values.get("NAME", ""),
    )


def parse_memory(meminfo: str) -> int:
    """All of the memory, in MiB."""
    found = re.search(r"^MemTotal: +(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) >> 10 if found else 0


def read_text(root: str, path: str) -> str:
    """The file's text, or nothing where it is absent or not readable."""
    try:
        with open(under(root, path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def under(root: str, path: str) -> str:
    """Where an absolute path of the node lies when its file tree stands at `root`."""
    return os.path.join(root, path.lstrip("/"))


def read_machine(root: str, python: str) -> Machine:
    uname = os.uname()
    return Machine(
        hostname=uname.nodename,
        machine_id=read_text(root, "/etc/machine-id").strip(),
        architecture=uname.machine,
        kernel=uname.release,
        first_process=read_text(root, "/proc/1/comm").strip(),
        uid=os.geteuid(),
        python=python,
        memory_mib=parse_memory(read_text(root, "/proc/meminfo")),
        system=parse_os_release(read_text(root, "/etc/os-release") or read_text(root, "/usr/lib/os-release")),
    )
