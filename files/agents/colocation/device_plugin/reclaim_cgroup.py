# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The lowest and the highest rung, on a pod's own cgroup and without anybody's help: drop its page cache, end it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from colocation.device_plugin import memory_readers
from colocation.device_plugin.accounting import unreclaimable
from colocation.device_plugin.limits import UNLIMITED, is_pod
from colocation.device_plugin.memory_readers import Unreadable


@dataclass(frozen=True, slots=True)
class Use:
    """What a pod uses, in bytes."""

    use: int  # and can't give back while it lives
    cache: int  # page cache that can be dropped


def read(cgroup: str) -> Use | None:
    """What a pod uses now; nothing where it is gone."""
    try:
        stat = memory_readers.stat(memory_readers.read(os.path.join(cgroup, "memory.stat")))
    except Unreadable:
        return None
    return Use(unreclaimable(stat), stat.get("active_file", 0) + stat.get("inactive_file", 0))


def squeeze(cgroup: str, amount: int) -> str:
    """Have the kernel drop that much of a pod's page cache; why it could not. It may take seconds."""
    if not is_pod(cgroup):
        return f"{cgroup} is no pod's cgroup"
    try:
        _write(cgroup, "memory.reclaim", str(amount))
    except FileNotFoundError:
        return _squeeze_by_limit(cgroup, amount)
    except BlockingIOError:
        return ""  # EAGAIN: it dropped what it could
    except OSError as problem:
        return f"memory.reclaim: {problem.strerror}"
    return ""


def _squeeze_by_limit(cgroup: str, amount: int) -> str:
    """Before Linux 5.19: a lower memory.high for a moment, which drops cache before it slows anybody down."""
    try:
        before = _read(cgroup, "memory.high")
        current = int(_read(cgroup, "memory.current"))
        try:
            _write(cgroup, "memory.high", str(max(0, current - amount)))
        finally:
            _write(cgroup, "memory.high", before or UNLIMITED)
    except (OSError, ValueError) as problem:
        return "" if not os.path.isdir(cgroup) else f"memory.high: {problem}"
    return ""


def kill(cgroup: str) -> str:
    """End all processes of a pod; why it could not."""
    if not is_pod(cgroup):
        return f"{cgroup} is no pod's cgroup"
    try:
        _write(cgroup, "cgroup.kill", "1")
    except FileNotFoundError:
        return _kill_by_limit(cgroup)
    except OSError as problem:
        return f"cgroup.kill: {problem.strerror}"
    return ""


def _kill_by_limit(cgroup: str) -> str:
    """Before Linux 5.14: no memory at all, so that the kernel's OOM killer ends what is there, and only there."""
    try:
        before = _read(cgroup, "memory.max")
        try:
            _write(cgroup, "memory.max", "0")
        finally:
            with contextlib.suppress(OSError):
                _write(cgroup, "memory.max", before or UNLIMITED)
    except OSError as problem:
        return "" if not os.path.isdir(cgroup) else f"memory.max: {problem.strerror}"
    return ""


def _read(cgroup: str, name: str) -> str:
    with open(os.path.join(cgroup, name), encoding="ascii") as stream:
        return stream.read().strip()


def _write(cgroup: str, name: str, text: str) -> None:
    # not created where it is not there: the kernel's files are, or the kernel has no such thing
    descriptor = os.open(os.path.join(cgroup, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
