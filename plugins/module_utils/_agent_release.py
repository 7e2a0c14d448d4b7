# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Releases of the agents on a node: `<root>/releases/<id>/RELEASE.json`, and which of them a process runs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import read

RELEASES, CURRENT, MANIFEST = "releases", "current", "RELEASE.json"
_GONE = " (deleted)"  # what the kernel adds to the name of a folder that is no more


@dataclass(frozen=True, slots=True)
class Release:
    """What a release says of itself."""

    id: str
    agents: dict[str, str]  # the hash of all code that an agent runs


def release_path(root: str, release: str) -> str:
    """The folder of a release."""
    return os.path.join(root, RELEASES, release)


def read_release(root: str, release: str) -> Release | None:
    """The release's own words; None where it is missing or not whole."""
    try:
        value = json.loads(read(os.path.join(release_path(root, release), MANIFEST)) or b"")
        agents = {str(name): str(sha256) for name, sha256 in value["agents"].items()}
        found = Release(str(value["id"]), agents)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.id == release else None


def current_release(root: str) -> str:
    """Where `current` leads; "" where it leads nowhere that is ours."""
    try:
        target = os.readlink(os.path.join(root, CURRENT))
    except OSError:
        return ""
    return _release_of(root, os.path.join(root, target))


def running_release(root: str, proc: str, pid: str) -> str:
    """The release in whose folder a process runs; "" where it runs elsewhere, or the folder is gone."""
    try:
        folder = os.readlink(os.path.join(proc, pid, "cwd"))
    except OSError:
        return ""
    return "" if folder.endswith(_GONE) else _release_of(root, folder)


def _release_of(root: str, folder: str) -> str:
    parent, name = os.path.split(os.path.normpath(folder))
    return name if os.path.realpath(parent) == os.path.realpath(os.path.join(root, RELEASES)) else ""
