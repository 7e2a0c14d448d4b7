# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A copy of the checkout at …/ansible_collections/colocation/kubernetes, where every tool finds the collection.

It holds what git tracks and what is new and not ignored, so junk in the checkout does not matter, the checkout may
have any name and may be read-only, and what a tool writes into its tree is gone with the copy.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .places import locked
from .report import CannotGoOn

INSIDE = Path("ansible_collections", "colocation", "kubernetes")
HELD = "held"


@dataclass(frozen=True, slots=True)
class Stage:
    """A staged collection: `root` is what ANSIBLE_COLLECTIONS_PATH and PYTHONPATH want."""

    root: Path

    @property
    def collection(self) -> Path:
        """The copy of the checkout."""
        return self.root / INSIDE


@contextmanager
def staged(checkout: Path, cache: Path) -> Iterator[Stage]:
    """A fresh stage for the time of the block. Those that killed runs left are removed."""
    with held_directory(cache / "stage") as root:
        stage = Stage(root)
        copy(checkout, stage.collection)
        # ansible-test and ansible-lint see more (links to directories, what is ignored) where they find git.
        init = ["git", "-c", "init.defaultBranch=main", "init", "--quiet", "--template=", str(stage.collection)]
        subprocess.run(init, check=True)
        yield stage


@contextmanager
def held_directory(parent: Path) -> Iterator[Path]:
    """A new directory for the time of the block; those that killed runs left in `parent` are removed."""
    with locked(parent / "lock"):
        sweep(parent)
        root = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        holder = (root / HELD).open("w")
        fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
        holder.close()


def sweep(parent: Path) -> None:
    """Remove the directories that no living run holds."""
    for root in parent.glob("run-*"):
        with (root / HELD).open("a") as holder:
            try:
                fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(root, ignore_errors=True)


def copy(checkout: Path, target: Path) -> None:
    """Copy the files of a checkout, links as links."""
    for name in files(checkout):
        source, destination = checkout / name, target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            destination.symlink_to(os.readlink(source))
        else:
            shutil.copy2(source, destination)


def files(checkout: Path) -> list[Path]:
    """What git tracks and still is there, and what is new and not ignored, relative to the checkout."""
    if shutil.which("git") is None:
        raise CannotGoOn("git is missing: apt-get install git")
    # safe.directory: as root one may look into another user's checkout
    list_files = ["git", "-c", "safe.directory=*", "-C", str(checkout), "ls-files", "-z", "--deduplicate"]
    selection = ["--cached", "--others", "--exclude-standard"]
    answer = subprocess.run([*list_files, *selection], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise CannotGoOn(f"git can't list the files of {checkout}: {answer.stderr.strip()}\nIs it a git checkout?")
    names = (Path(name) for name in answer.stdout.split("\0") if name)
    return sorted(name for name in names if (checkout / name).is_symlink() or (checkout / name).is_file())
