# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Room on the file systems that later roles write to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import under

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    path: str  # as asked
    measured_at: str  # the nearest directory that exists: where the path would be made
    size_mib: int
    free_mib: int
    inodes_free: int | None  # None: the file system makes them as needed (btrfs)
    read_only: bool


def nearest_existing(root: str, path: str) -> str:
    """The path itself, or the closest directory above it that exists."""
    place = os.path.normpath(os.path.join("/", path))
    while place != "/" and not os.path.exists(under(root, place)):
        place = os.path.dirname(place)
    return place


def read_disks(root: str, paths: Iterable[str]) -> tuple[Disk, ...]:
    return tuple(_read_disk(root, path) for path in paths)


def _read_disk(root: str, path: str) -> Disk:
    place = nearest_existing(root, path)
    stat = os.statvfs(under(root, place))
    return Disk(
        path=path,
        measured_at=place,
        size_mib=stat.f_blocks * stat.f_frsize // MIB,
        free_mib=stat.f_bavail * stat.f_frsize // MIB,
        inodes_free=stat.f_favail if stat.f_files else None,
        read_only=bool(stat.f_flag & os.ST_RDONLY),
    )
