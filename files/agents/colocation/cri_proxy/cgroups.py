# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where containers really run: their cgroups, found by the id in the name, and the cpuset in force there.

Runtimes and cgroup drivers name the folders differently (`cri-containerd-<id>.scope`, `<id>`), under different parents;
the id is in all of them. Version 2 of the hierarchy and the cpuset controller of version 1 are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from colocation.cri_proxy import cpus as cpu_sets

_CONTAINER = re.compile(r"(?:^|[-_])([0-9a-f]{64})(?:\.scope)?$")
_CPUS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
_MEMS = ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems")
MOST_DEPTH = 4  # folders between "kubepods" and a container
ABOVE = ("", "cpuset")  # the hierarchy of version 2, the controller's of version 1


class Cgroups:
    """The cgroups under a mount point."""

    def __init__(self, root: str) -> None:
        self.root = root

    def containers(self) -> dict[str, str]:
        """The cgroups of all containers of pods, by the containers' ids."""
        for top in ABOVE:
            found = dict(self._containers(os.path.join(self.root, top)))
            if found:
                return found
        return {}

    @staticmethod
    def exists(cgroup: str) -> bool:
        return os.path.isdir(cgroup)

    def effective(self, cgroup: str) -> int | None:
        """The CPUs in force; None where it is gone. A cgroup without a cpuset of its own has that of its parent."""
        return self._in_force(cgroup, _CPUS)

    def memory_nodes(self, cgroup: str) -> int | None:
        """The NUMA nodes in force for its memory; None where nothing tells them."""
        return self._in_force(cgroup, _MEMS)

    def _in_force(self, cgroup: str, files: tuple[str, ...]) -> int | None:
        place = Path(cgroup)
        if not place.is_dir():
            return None
        while True:
            for name in files:
                try:
                    found = cpu_sets.parse((place / name).read_text())
                except (OSError, ValueError):
                    continue
                if found:
                    return found
            if str(place) == self.root or place == place.parent:
                return None
            place = place.parent

    def _containers(self, top: str) -> Iterator[tuple[str, str]]:
        for entry in _folders(top):
            if "kubepods" in entry.name:
                yield from _walk(entry.path, MOST_DEPTH)
            elif "kube" in entry.name:  # a cgroup root of the kubelet's own
                for inner in _folders(entry.path):
                    if "kubepods" in inner.name:
                        yield from _walk(inner.path, MOST_DEPTH)


def _walk(folder: str, depth: int) -> Iterator[tuple[str, str]]:
    for entry in _folders(folder):
        match = _CONTAINER.search(entry.name)
        if match:
            yield match[1], entry.path
        elif depth:
            yield from _walk(entry.path, depth - 1)


def _folders(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # it went while we looked
