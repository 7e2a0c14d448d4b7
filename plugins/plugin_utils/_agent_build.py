# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""On the controller: an archive of the agents for a kind of node, made once and kept.

An archive is found again by all that goes into it: our sources, the lock, the target. So a changed line is a new
archive, and a run without a change calls no pip. One that does not have its hash any more is made anew. Forks that want
the same one wait for the first; each file takes its place in one rename, so a killed run leaves nothing that is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_archive import pack
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    BYTECODE,
    PACKAGE,
    Release,
    TreeError,
    describe,
    hash_file,
    is_bytecode,
    walk,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import Target

FORMAT = "1"  # of what is made; another one makes all archives anew
KEPT = 3  # archives for each target
VARIES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json")  # by installer
PARTIAL = ".building-"
JUNK = re.compile(r"(^|/)\.|~$|\.pyc$")  # what editors and other Pythons leave in a checkout

Fill = Callable[[Path], None]  # puts the packages of the lock into a tree


class BuildFailed(Exception):
    """The text says what is wrong on the controller, and what to do."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed release."""

    path: str
    sha256: str
    bytes: int
    release: Release
    made: bool  # now, rather than found


def default_cache(environ: Mapping[str, str]) -> Path:
    """Where archives are kept if nobody says otherwise."""
    base = environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~"), ".cache")
    return home / "colocation-kubernetes" / "agents"


def version_of(agents: Path) -> str:
    """The distribution's version."""
    file = agents / PACKAGE / "__init__.py"
    found = re.search(r'^__version__ = "([0-9][0-9A-Za-z.+]*)"$', file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BuildFailed(f'{file} has no line __version__ = "…"')
    return found[1]


def key(agents: Path, target: Target) -> str:
    """A hash of all that goes into the archive."""
    inputs = {f"sources/{name}": hash_file(str(agents / PACKAGE / name)) for name in _sources(agents)}
    inputs["lock"] = hash_file(str(agents / "locks" / target.lock))
    text = json.dumps([FORMAT, target.name, target.pip_options, inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sources(agents: Path) -> list[str]:
    names = walk(str(agents / PACKAGE))
    return sorted(name for name in names if not is_bytecode(name) and not JUNK.search(name))


def archive_for(agents: Path, target: Target, cache: Path, fill: Fill) -> Archive:
    """The archive for a kind of node: the kept one, or a new one."""
    try:
        _prepare(cache)
        with _locked(cache / f"{target.name}.lock"):
            name = f"{target.name}-{key(agents, target)[:16]}"
            found = _kept(cache, name)
            if found is not None:
                return found
            _clear(cache, target)
            made = _make(agents, target, cache, name, fill)
            _forget_old(cache, target)
            return made
    except (OSError, TreeError) as problem:
        raise BuildFailed(f"the agents can't be packed on the controller, in {cache}: {problem}") from problem


def _prepare(cache: Path) -> None:
    """Make the directory; who else can write into it could put code onto the nodes."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = cache.stat()
    if found.st_uid != os.geteuid():
        raise BuildFailed(
            f"the cache {cache} belongs to user {found.st_uid}, and this run is by user {os.geteuid()}; "
            "name another directory with agent_runtime_cache_dir"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        cache.chmod(0o700)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield


def _kept(cache: Path, name: str) -> Archive | None:
    """A kept archive that still is what was put there."""
    path, record = cache / f"{name}.tar.gz", cache / f"{name}.json"
    try:
        said: Any = json.loads(record.read_text(encoding="utf-8"))
        release, wanted = Release.from_json(said["release"]), said["sha256"]
        if hash_file(str(path)) != wanted:
            return None
        os.utime(path)  # it is in use
        return Archive(str(path), wanted, path.stat().st_size, release, made=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make(agents: Path, target: Target, cache: Path, name: str, fill: Fill) -> Archive:
    with tempfile.TemporaryDirectory(prefix=f"{PARTIAL}{target.name}-", dir=cache) as made:
        tree, packed = Path(made, "tree"), Path(made, "archive")
        tree.mkdir()
        fill(tree)
        strip(tree)
        add_sources(agents, tree)
        release = describe(str(tree), version_of(agents), target.python, target.architecture)
        pack(str(tree), release, str(packed))
        found = hash_file(str(packed))
        record = Path(made, "record")
        record.write_text(json.dumps({"sha256": found, "release": release.to_json()}, indent=2), encoding="utf-8")
        path = cache / f"{name}.tar.gz"
        packed.replace(path)
        record.replace(cache / f"{name}.json")
    return Archive(str(path), found, path.stat().st_size, release, made=True)


def strip(tree: Path) -> None:
    """Remove what depends on the controller or the installer: scripts with its interpreter's path, records of it."""
    for path in tree.glob("*.dist-info/*"):
        if path.name in VARIES:
            path.unlink()
    shutil.rmtree(tree / "bin", ignore_errors=True)
    for path in [*tree.rglob(BYTECODE)]:
        shutil.rmtree(path)


def add_sources(agents: Path, tree: Path) -> None:
    """Copy our own package in."""
    if (tree / PACKAGE).exists():
        raise TreeError(f"one of the lock's packages brings a package {PACKAGE} of its own")
    for name in _sources(agents):
        path = tree / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(agents / PACKAGE / name, path)


def _clear(cache: Path, target: Target) -> None:
    """Remove what killed runs left; nobody else builds this target while we hold its lock."""
    for left in cache.glob(f"{PARTIAL}{target.name}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _forget_old(cache: Path, target: Target) -> None:
    def used(path: Path) -> float:
        return path.stat().st_mtime

    for old in sorted(cache.glob(f"{target.name}-*.tar.gz"), key=used, reverse=True)[KEPT:]:
        old.unlink()
        old.with_name(old.name.replace(".tar.gz", ".json")).unlink(missing_ok=True)
