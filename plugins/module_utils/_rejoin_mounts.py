# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Mounts beneath a directory: found, taken away innermost first, and never deleted through.

What lies in a mounted volume is somebody's data. So before anything beneath a directory is removed, nothing may be
mounted there, by the kernel's own table and not by device numbers, which a bind mount shares with its surroundings.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import (
    Mount,
    parse_mountinfo,
    unescape,
)

MOUNTINFO = "/proc/self/mountinfo"
# Their servers may be gone, and then a plain umount never ends; nothing is lost when they are let go at once.
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs", "lustre", "fuse")


class MountError(Exception):
    """Something is mounted and stays so; the text says where, and what to do."""


def beneath(mounts: Iterable[Mount], directory: str) -> list[Mount]:
    """Those under a directory, not the directory's own; the last one that was mounted comes first."""
    return [one for one in mounts if one.point.startswith(directory.rstrip("/") + "/")][::-1]


def mounted_beneath(directory: str, mountinfo: str = MOUNTINFO) -> list[Mount]:
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        return beneath(parse_mountinfo(file.read()), os.path.realpath(directory))


def unmount_beneath(
    directory: str,
    run: Callable[[list[str]], tuple[int, str, str]],
    *,
    pause: Callable[[], None],
    tries: int = 5,
    mountinfo: str = MOUNTINFO,
) -> list[str]:
    """Unmount all beneath a directory; the mount points. MountError names what stays and why."""
    gone: list[str] = []
    said: dict[str, str] = {}
    for attempt in range(tries):
        if attempt:
            pause()
        standing = mounted_beneath(directory, mountinfo)
        if not standing:
            return gone
        for mount in standing:
            options = ["-f", "-l"] if _over_network(mount) else []
            code, out, err = run(["umount", *options, "--", mount.point])
            if code == 0:
                gone.append(mount.point)
            else:
                said[mount.point] = (err or out).strip()
    standing = mounted_beneath(directory, mountinfo)
    if not standing:
        return gone
    told = "; ".join(f"{one.point} ({said.get(one.point) or 'mounted again'})" for one in standing[:5])
    raise MountError(
        f"volumes are still mounted beneath {directory}, and nothing is deleted there before they are not: {told}. "
        "Find who uses them (fuser -vm MOUNTPOINT), end that, and run again"
    )


def wipe(directory: str, mountinfo: str = MOUNTINFO) -> list[str]:
    """Remove all in a directory, but not itself; the names. Nothing may be mounted beneath it."""
    place = os.path.realpath(directory)
    if not os.path.isdir(place):
        return []
    removed = []
    for name in sorted(os.listdir(place)):
        standing = mounted_beneath(place, mountinfo)
        if standing:
            raise MountError(f"{standing[0].point} is mounted, so {directory} is not emptied any further; run again")
        path = os.path.join(place, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        removed.append(path)
    return removed


def fstab_beneath(text: str, directory: str) -> list[str]:
    """Mount points that /etc/fstab has beneath a directory and that are mounted at boot, outermost first."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and not fields[0].startswith("#") and "noauto" not in fields[3].split(","):
            point = unescape(fields[1])
            if point.startswith(directory.rstrip("/") + "/"):
                found.append(point)
    return sorted(found)


def _over_network(mount: Mount) -> bool:
    return mount.kind in _NETWORK or mount.kind.startswith("fuse.")
