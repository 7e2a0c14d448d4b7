# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where things are: the checkout, which is only read, and the cache, where everything made is kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LOGS_KEPT = 10


@dataclass(frozen=True, slots=True)
class Places:
    """The checkout and the cache directory of this run."""

    checkout: Path
    cache: Path

    @classmethod
    def of(cls, environ: Mapping[str, str], checkout: Path = CHECKOUT) -> Places:
        """The places as the environment names them."""
        return cls(checkout=checkout, cache=cache_directory(environ))

    def make_logs(self) -> Path:
        """A directory for the logs of this run, one file a step. Those of the last runs stay, and of who goes on."""
        parent = self.cache / "logs"
        parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(parent.iterdir())[: -LOGS_KEPT + 1]:
            if not Path("/proc", old.name.rpartition("-")[2]).exists():
                shutil.rmtree(old, ignore_errors=True)
        logs = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        logs.mkdir()
        return logs


def cache_directory(environ: Mapping[str, str]) -> Path:
    """COLOCATION_CACHE, else colocation-kubernetes in the user's cache directory."""
    chosen = environ.get("COLOCATION_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else home(environ) / ".cache") / "colocation-kubernetes"


def home(environ: Mapping[str, str]) -> Path:
    """The user's home directory."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def shown(path: Path, environ: Mapping[str, str]) -> str:
    """A path as people like to read it: below the home directory with a tilde."""
    try:
        return str(Path("~") / path.relative_to(home(environ)))
    except ValueError:
        return str(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; it is let go when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield
