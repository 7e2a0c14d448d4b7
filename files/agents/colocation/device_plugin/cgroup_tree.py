# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where the kubelet keeps its pods among the control groups, found by looking and not by a fixed path.

    systemd    <root>[/…]/kubepods.slice[/kubepods-<qos>.slice]/kubepods[-<qos>]-pod<uid with _>.slice
    cgroupfs   <root>[/…]/kubepods[/<qos>]/pod<uid>

Between root and kubepods may stand what `--cgroup-root` names (kind: kubelet.slice/kubelet-kubepods.slice). There may
be several: a kubelet that was moved from one driver to the other leaves the first until the node starts anew. Only
version 2 of control groups is looked at. Directories come and go while we look; one that goes is not there.
"""

from __future__ import annotations

import os
import re

DEPTH = 3  # how far below the root kubepods may be
FIND_SECONDS = 60.0  # between two looks for kubepods, which cost more than those for pods
_KUBEPODS = re.compile(r"(?:[\w.-]+-)?kubepods(?:\.slice)?")
_QOS = re.compile(r"(?:.*-)?(?:burstable|besteffort)(?:\.slice)?")
_POD = re.compile(r"(?:.*-)?pod([0-9a-f][0-9a-f_-]{7,63})(?:\.slice)?")


def is_version_2(root: str) -> bool:
    """Whether control groups of version 2 are mounted there, as the only ones."""
    return os.path.exists(f"{root}/cgroup.controllers")


def find_kubepods(root: str) -> tuple[str, ...]:
    """The directories above pods, those near the root first."""
    found, level = [], [root]
    for _depth in range(DEPTH):
        below = sorted(path for directory in level for path in _directories(directory))
        found += [path for path in below if _KUBEPODS.fullmatch(os.path.basename(path))]
        level = [path for path in below if not _KUBEPODS.fullmatch(os.path.basename(path))]
    return tuple(found)


def pods(kubepods: str) -> dict[str, str]:
    """The directory of each pod by its UID; OSError when kubepods itself is gone."""
    found: dict[str, str] = {}
    with os.scandir(kubepods) as entries:
        below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    for entry in below:
        if uid := pod_uid(entry.name):
            found[uid] = entry.path
        elif _QOS.fullmatch(entry.name):
            found |= {uid: path for path in _directories(entry.path) if (uid := pod_uid(os.path.basename(path)))}
    return found


def pod_uid(directory: str) -> str:
    """The UID in the name of a pod's directory; empty for other directories. Static pods have a hash as UID."""
    found = _POD.fullmatch(directory)
    return found[1].replace("_", "-") if found else ""


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # gone meanwhile


class PodTree:
    """The pods' directories as they are now; finds kubepods anew when one is gone, and every minute."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.kubepods = ""  # of several the one with most pods: the other is left over
        self.pods: dict[str, str] = {}
        self.problem = ""
        self._places: tuple[str, ...] = ()
        self._found_at = 0.0

    def refresh(self, now: float) -> None:
        """Look again. Without kubepods there are no pods, and `problem` says why."""
        if not is_version_2(self.root):
            self.kubepods, self.pods, self._places = "", {}, ()
            self.problem = f"{self.root} has no control groups of version 2"
            return
        if now - self._found_at >= FIND_SECONDS:
            self._places = ()
        for _try in range(2):
            if not self._places:
                self._places, self._found_at = find_kubepods(self.root), now
            try:
                found = {place: pods(place) for place in self._places}
            except OSError:
                found, self._places = {}, ()
            else:
                break
        self.kubepods = max(found, key=lambda place: len(found[place]), default="")
        self.pods = {uid: path for place in (*found, self.kubepods) if place for uid, path in found[place].items()}
        self.problem = "" if self.kubepods else f"there is no kubepods in {self.root}; the kubelet has made no pods yet"

    def lives(self, uid: str) -> bool:
        """Whether a pod has processes, as far as can be told."""
        return bool(self.problem) or uid in self.pods
