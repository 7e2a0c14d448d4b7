# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which cgroup hierarchy a node runs: the one question that decides whether the kubelet of today starts.

The kubelet asks what file system stands at /sys/fs/cgroup and calls everything but cgroup2 "v1". We look at the
same place in the mount table, and tell systemd's hybrid layout (v1 with an extra v2 tree beside it) from pure v1,
because there people believe that they have v2.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text

CGROUP_ROOT = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cgroup:
    mode: str  # "v2", "hybrid", "v1" or "none"
    controllers: tuple[str, ...]


def parse_mountinfo(text: str) -> list[Mount]:
    """Mounts in the order they were made; lines that are not of mountinfo's form are left out."""
    mounts = []
    for line in text.splitlines():
        fields, dash, rest = line.partition(" - ")
        place, kind = fields.split(), rest.split()
        if dash and len(place) >= 5 and kind:
            mounts.append(Mount(unescape(place[4]), kind[0]))
    return mounts


def unescape(text: str) -> str:
    """A path as it stands in mountinfo and fstab."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def cgroup_mode(mounts: list[Mount]) -> str:
    """The last mount at a point hides those before it, so the last one at the root decides."""
    at_root = [mount.kind for mount in mounts if mount.point == CGROUP_ROOT]
    if at_root and at_root[-1] == "cgroup2":
        return "v2"
    below = {mount.kind for mount in mounts if mount.point.startswith(CGROUP_ROOT + "/")}
    if "cgroup" in below or "cgroup" in at_root:
        return "hybrid" if "cgroup2" in below else "v1"
    return "none"


def read_cgroup(root: str) -> Cgroup:
    mounts = parse_mountinfo(read_text(root, "/proc/self/mountinfo"))
    controllers = read_text(root, f"{CGROUP_ROOT}/cgroup.controllers").split()
    return Cgroup(mode=cgroup_mode(mounts), controllers=tuple(controllers))
