# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The cache: everything that is slow to make is made once, under a name that tells its content.

A product is made beside its final name and moved there when it is complete, under a lock, so that a killed
run leaves nothing half-made and two runs don't make the same thing twice. The lock's time says when the product was
asked for last; when another one is made, those that nobody asked for in two weeks go.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .say import phase

UNUSED_DAYS = 14


def cache_dir() -> Path:
    """Where products live: outside the checkout, chosen by COLOCATION_CACHE."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("COLOCATION_CACHE") or os.path.join(base, "colocation-kubernetes"))


def content_key(*parts: str | bytes | Path) -> str:
    """A short name for exactly these inputs; a path stands for the files in it, their names and run bits."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:16]


def _pieces(part: str | bytes | Path) -> Iterator[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif isinstance(part, bytes):
        yield part
    else:
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(part).as_posix() if part.is_dir() else path.name
                yield f"{name} {os.access(path, os.X_OK)}".encode()
                yield path.read_bytes()


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a product; the kernel lets go of it when the process ends, however it ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def locked_if_free(target: Path) -> Iterator[bool]:
    """The same without waiting: whether we hold it."""
    with open(f"{target}.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def made_once(target: Path, make: Callable[[Path], None], what: str) -> Path:
    """The product at `target`; if it is not there, `make` fills a temporary path that then becomes it."""
    if target.exists():
        Path(f"{target}.lock").touch()
        return target
    with locked(target):
        if target.exists():
            return target
        for stale in target.parent.glob(f".{target.name}.*"):  # of a killed run: we hold the lock
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            with phase(what):
                make(work / "product")
            os.rename(work / "product", target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        _drop_unused(target.parent)
    return target


def _drop_unused(folder: Path) -> None:
    """What runs from a product keeps its files open; a product that somebody makes right now is locked."""
    before = time.time() - UNUSED_DAYS * 86400
    for path in folder.glob("*.lock"):
        product = path.with_suffix("")
        with contextlib.suppress(OSError), locked_if_free(product) as free:
            if free and path.stat().st_mtime < before:
                shutil.rmtree(product) if product.is_dir() else product.unlink()
