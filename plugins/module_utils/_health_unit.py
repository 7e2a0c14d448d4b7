# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A systemd unit as its health is judged: how it stands, since when, and what its journal said last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_restart import read_active_since
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import YOUNG, Service
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_journal import last_error
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import under
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import (
    ADMIN_DIRECTORY,
    OTHER_DIRECTORIES,
    Run,
    Systemd,
    UnitState,
)

LINES = 120


def look_at_unit(root: str, run: Run, name: str) -> UnitState | None:
    """The unit's state; None where it has no file (systemctl is not even asked); UnitError where systemd is silent."""
    places = (ADMIN_DIRECTORY, *OTHER_DIRECTORIES)
    if not any(os.path.lexists(under(root, os.path.join(place, name))) for place in places):
        return None
    return Systemd(run, root).look(name)


def read_service(root: str, run: Run, name: str, clock: Callable[[], float] = time.monotonic) -> Service:
    """A unit, and more of one that is not simply well."""
    unit = look_at_unit(root, run, name)
    if unit is None or (unit.active == "active" and not unit.crashes):
        return Service(unit)
    properties = "--property=ActiveState,ActiveEnterTimestampMonotonic"
    since = read_active_since(run(["systemctl", "show", properties, name])[1])
    up_for = None if since is None else max(0.0, clock() - since)
    if unit.active == "active" and up_for is not None and up_for > YOUNG:
        return Service(unit, up_for)
    if unit.active == "inactive" and unit.result in ("", "success"):
        return Service(unit)
    code, out, _err = run(["journalctl", "-u", name, "-n", str(LINES), "-b", "--no-pager", "-o", "cat"])
    return Service(unit, up_for, last_error(out) if code == 0 else "")
