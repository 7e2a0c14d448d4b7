# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node in a directory, for the tests of the restore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import look
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import Limits, Report, Walk
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import bring
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import (
    FakeSystemd,
)


class Node:
    """A node in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.double = FakeSystemd(root)
        self.answers: dict[str, tuple[int, str, str]] = {}
        (root / "etc").mkdir(parents=True)
        (root / "var/lib").mkdir(parents=True)
        self.ledger = Ledger(str(root / "var/lib/colocation"), "role")
        self.systemd = Systemd(self.run, str(root), clock=self.double.clock, sleep=self.double.sleep)

    def run(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] in self.answers:
            self.double.calls.append(" ".join(command))
            return self.answers[command[0]]
        return self.double(command)

    def path(self, name: str, content: bytes | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
        return path

    def restore(self, check_mode: bool = False, **limits: Any) -> Report:
        ledger = Ledger(str(self.root / "var/lib/colocation"), check_mode=check_mode)
        return Walk(ledger, self.run, Limits(**limits), str(self.root), self.systemd).go()

    def tree(self) -> dict[str, object]:
        """All paths outside of the state directory, with what stands there."""
        return {
            str(path.relative_to(self.root)): look(str(path)) if not path.is_dir() or path.is_symlink() else "directory"
            for path in self.root.rglob("*")
            if "colocation" not in path.parts
        }


def names(lines: list[dict[str, str]]) -> list[str]:
    return [line["name"] for line in lines]


def change_much(node: Node) -> None:
    node.path("etc/changed", b"original\n")
    os.chmod(node.root / "etc/changed", 0o640)
    node.path("etc/removed", b"precious\n")
    node.path("etc/link").symlink_to("/somewhere")
    node.path("proc/sys/net/ipv4/ip_forward", b"0\n")
    node.double.install("other.service", active="active", enablement="enabled")


def do_much(node: Node) -> None:
    ledger = node.ledger
    ledger.write_file(str(node.root / "etc/changed"), b"ours\n")
    ledger.write_file(str(node.root / "etc/changed"), b"ours again\n", mode=0o600)
    ledger.remove_file(str(node.root / "etc/removed"))
    ledger.make_link(str(node.root / "etc/link"), "/elsewhere")
    ledger.write_file(str(node.root / "etc/systemd/system/ours.service.d/50-x.conf"), b"x\n")
    ledger.note("sysctl", "net.ipv4.ip_forward", "0", "1")
    node.path("proc/sys/net/ipv4/ip_forward", b"1\n")
    bring(node.systemd, ledger, "other.service", UnitWish("stopped", False, True))
