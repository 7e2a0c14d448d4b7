# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where releases of the agents are on a node: `<root>/releases/<id>`, `<root>/current`, and which a process runs."""

from __future__ import annotations

import os

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release, TreeError, read_record

RELEASES, CURRENT = "releases", "current"
GONE = " (deleted)"  # what the kernel adds to the name of a folder that is no more


def release_path(root: str, release: str) -> str:
    """The folder of a release."""
    return os.path.join(root, RELEASES, release)


def read_release(root: str, release: str) -> Release | None:
    """The release's own words; None where it is missing or not whole."""
    try:
        found = read_record(release_path(root, release))
    except TreeError:
        return None
    return found if found.id == release else None


def current_release(root: str) -> str:
    """The release that `current` leads to, whether it is there or not; "" for no link, or one to somewhere else."""
    try:
        target = os.readlink(os.path.join(root, CURRENT))
    except OSError:
        return ""
    return _release_of(root, os.path.join(root, target))


def running_release(root: str, proc: str, pid: str) -> str:
    """The release in whose folder a process runs; "" where it runs elsewhere, or the folder is gone."""
    folder = working_directory(proc, pid)
    return "" if folder.endswith(GONE) else _release_of(root, folder)


def working_directory(proc: str, pid: str) -> str:
    """Where a process works; "" where it ended, or is the kernel's."""
    try:
        return os.readlink(os.path.join(proc, pid, "cwd"))
    except OSError:
        return ""


def _release_of(root: str, folder: str) -> str:
    parent, name = os.path.split(os.path.normpath(folder))
    return name if os.path.realpath(parent) == os.path.realpath(os.path.join(root, RELEASES)) else ""
