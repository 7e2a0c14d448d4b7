# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent leaves its node: stopped, disabled, its files as before, its sockets and its record gone.

What the ledger has in the owner's name is undone by the same walk as an uninstall. Safe on a node where half of it
is there, or nothing.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import socket
import stat
from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import Limits, Report, Walk
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, full_name

INCARNATION = re.compile(r".+\.[0-9a-f]{16}\.sock")  # the name that an agent gives to a socket for one life of it


@dataclass(slots=True)
class Removal:
    """What was removed, or in check mode would be."""

    report: Report = field(default_factory=Report)
    sockets: list[str] = field(default_factory=list)
    record: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.report.restored or self.sockets or self.record)


def take_away(
    unit: str, systemd: Systemd, ledger: Ledger, store: RecordStore, socket_globs: list[str], timeout: float
) -> Removal:
    """Remove all that `ledger.owner` brought for an agent."""
    removal = Removal(record=store.exists())
    unit = full_name(unit)
    walk = Walk(ledger, systemd.run, Limits(owners=(ledger.owner,), timeout=timeout), systemd.root, systemd)
    removal.report = walk.go()
    if systemd.look(unit).active == "failed" and not ledger.check_mode:
        systemd.run(["systemctl", "reset-failed", unit])  # or systemd remembers a unit that is no more
    removal.sockets = [path for pattern in socket_globs for path in dead_sockets(pattern)]
    if not ledger.check_mode:
        for path in removal.sockets:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        if not removal.report.problems:
            store.remove()
            ledger.sweep()  # the state directory goes with the last thing in it
    return removal


def dead_sockets(pattern: str) -> list[str]:
    """Sockets of agents under a pattern that nobody serves, and links to such."""
    found = sorted(glob.glob(pattern))
    links = [path for path in found if os.path.islink(path) and INCARNATION.fullmatch(os.readlink(path))]
    dead = [path for path in found if path not in links and INCARNATION.fullmatch(path) and _is_dead(path)]
    gone = {os.path.basename(path) for path in dead}
    return dead + [path for path in links if os.readlink(path) in gone or not os.path.exists(path)]


def _is_dead(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(1)
            caller.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False
