# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A release comes onto a node: unpacked, compared, compiled and tried under another name, and then one rename.

Whatever stops it on the way (a killed run, a full disk, a wrong machine) leaves the releases that are there as they
are, and at most a `.partial-` directory that the next run removes.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_archive import FILE_MODE, unpack
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_releases import (
    ReleaseError,
    drop,
    free,
    fresh_partial,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    PACKAGE,
    RECORD,
    SHARED,
    Release,
    TreeError,
    bytecode_digest,
    digest,
    hash_file,
    hash_files,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import sync_directory
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

BLOCK = 4096
FULL = (errno.ENOSPC, errno.EDQUOT)
# Imports every module of an agent and of what it shares with others, from this directory and no other.
SMOKE = """
import importlib, os, pkgutil, sys
os.chdir(sys.argv[1])
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    if not os.path.realpath(package.__file__).startswith(os.getcwd() + os.sep):
        sys.exit(name + " comes from " + package.__file__)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
"""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be installed, with what."""

    archive: str
    sha256: str
    release: Release
    interpreter: str


def space_needed(release: Release) -> int:
    """Bytes on disk, at most: bytecode takes about as much as its source; files and directories take whole blocks."""
    return release.bytes + release.bytes // 4 + 4 * BLOCK * release.files


def install(order: Order, releases: str, run: Run, replaces: bool = False) -> None:
    """Make the release stand in `releases`, whose lock the caller holds; ReleaseError says why it can't."""
    name = order.release.id
    _compare_archive(order)
    needed, there = space_needed(order.release), free(releases)
    if there < needed:
        raise ReleaseError(full(releases, needed, there))
    partial = fresh_partial(releases, name)
    before = os.umask(0o022)
    try:
        with _explained(order, releases):
            _prepare(order, partial, os.path.join(releases, name), run)
            _take_place(partial, os.path.join(releases, name), replaces)
    finally:
        os.umask(before)
        if os.path.isdir(partial):
            drop(releases, [os.path.basename(partial)])


def full(path: str, needed: int, there: int) -> str:
    """The sentence for a disk that is too small."""
    return (
        f"there is too little space for the agents in {path}: {needed} bytes are needed and {there} are free. "
        "Make room, or put them elsewhere with agent_runtime_root; what was installed before stands"
    )


def filled_up(path: str, release: str) -> str:
    """The sentence for a disk that had room when we looked."""
    found = os.statvfs(path)
    return (
        f"release {release} was not installed: the file system of {path} got full on the way, or its quota is used up "
        f"({free(path)} bytes and {found.f_favail} inodes are free now). Make room; what was installed before stands"
    )


def _compare_archive(order: Order) -> None:
    try:
        found, size = hash_file(order.archive), os.stat(order.archive).st_size
    except OSError as problem:
        raise ReleaseError(f"the copied archive can't be read: {problem}") from problem
    if found != order.sha256:
        raise ReleaseError(
            f"the archive was damaged on its way ({size} bytes arrived, with another hash than the controller's); "
            "nothing was unpacked, so just run again"
        )


@contextmanager
def _explained(order: Order, releases: str) -> Iterator[None]:
    try:
        yield
    except TreeError as problem:
        raise ReleaseError(f"release {order.release.id} was not installed: {problem}") from problem
    except OSError as problem:
        if problem.errno in FULL:
            raise ReleaseError(filled_up(releases, order.release.id)) from problem
        raise ReleaseError(f"release {order.release.id} was not installed: {problem}") from problem


def _prepare(order: Order, partial: str, final: str, run: Run) -> None:
    """All that makes a release, under a name that is none."""
    release = unpack(order.archive, partial)
    if release != order.release or digest(hash_files(partial)) != release.tree_sha256:
        raise TreeError("what was unpacked is not what the controller packed")
    _compile(order, partial, final, run)
    _smoke(order, partial, run)
    _write_record(replace(release, bytecode_sha256=bytecode_digest(partial, release.python)), partial)
    _sync(partial)


def _compile(order: Order, partial: str, final: str, run: Run) -> None:
    """Bytecode that is taken as it is: times of files don't matter, and a read-only agent never wants to renew it."""
    options = ["-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", partial, "-p", final]
    code, out, err = run([order.interpreter, "-EsB", "-m", "compileall", *options, partial])
    if code != 0:
        for number in FULL:
            if os.strerror(number) in out + err:
                raise OSError(number, os.strerror(number), partial)
        raise TreeError(_said("it can't be compiled", order, code, out, err))


def _smoke(order: Order, partial: str, run: Run) -> None:
    """Every agent's modules are imported by the interpreter of its unit."""
    shared = [f"{PACKAGE}.{name}" for name in SHARED]
    for agent in sorted(order.release.agents):
        code, out, err = run([order.interpreter, "-EsB", "-c", SMOKE, partial, *shared, f"{PACKAGE}.{agent}"])
        if code != 0:
            raise TreeError(_said(f"{agent} does not start here", order, code, out, err))


def _said(what: str, order: Order, code: int, out: str, err: str) -> str:
    lines = [line for line in (err or out).strip().splitlines() if line.strip()]
    return f"{what} with {order.interpreter} (exit status {code}): {lines[-1].strip() if lines else 'nothing was said'}"


def _write_record(release: Release, partial: str) -> None:
    path = os.path.join(partial, RECORD)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(release.to_json(), file, indent=2, sort_keys=True)
        file.write("\n")
        os.fchmod(file.fileno(), FILE_MODE)
    os.replace(path + ".new", path)


def _sync(partial: str) -> None:
    """All of it on disk before its name is; one call for the file system is much faster than one for each file."""
    handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            problem = ctypes.get_errno()
            raise OSError(problem, os.strerror(problem), partial)
    finally:
        os.close(handle)


def _take_place(partial: str, final: str, replaces: bool) -> None:
    releases = os.path.dirname(final)
    aside = ""
    if replaces:  # a damaged one of the same name; processes that run from it keep their files
        aside = fresh_partial(releases, os.path.basename(final))
        os.rename(final, aside)
    os.rename(partial, final)
    sync_directory(releases)
    if aside:
        drop(releases, [os.path.basename(aside)])
