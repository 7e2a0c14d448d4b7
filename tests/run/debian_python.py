# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A newer Python than the machine has: that of Debian 13, in the cache, beside the machine's own files.

Its packages are unpacked, not installed: none of their scripts is run, and the machine does not notice. The programs in
them want the C library that came with them, so `python3` there is a script that starts the real one through its own
loader. A virtual environment made with it is like any other, and what runs in it has the machine's files and commands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from . import packages
from .places import locked
from .process import run
from .report import CannotGoOn

SUITE = "trixie"
VERSION = "3.13"
PACKAGES = (f"python{VERSION}", f"python{VERSION}-venv")
WHEELS = "usr/share/python-wheels"
START = """\
#!/bin/sh
exec {library}/{loader} --library-path {library} --argv0 "$0" {real} "$@"
"""


def make(cache: Path, log: Path) -> Path:
    """Its command. Made once, marked last; who finds no mark starts over, and two runs wait for each other."""
    directory = cache / "python" / f"{SUITE}-{VERSION}"
    command = directory / "usr" / "bin" / "python3"
    with locked(directory.with_name(directory.name + ".lock")):
        if not (directory / ".complete").is_file():
            lacking = [package for package in packages.MMDEBSTRAP if packages.command_of(package) is None]
            packages.install(lacking, log.with_suffix(".packages.log"))
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            _unpack(directory, log)
            settle(directory)
            if subprocess.run([command, "-c", "import ensurepip, ssl"], check=False).returncode != 0:
                raise CannotGoOn(f"Debian's Python {VERSION} does not run on this machine; {_advice()}")
            (directory / ".complete").touch()
    return command


def _unpack(directory: Path, log: Path) -> None:
    tar = directory / "packages.tar"
    wanted = f"--include={','.join(PACKAGES)}"
    get: list[str | Path] = ["mmdebstrap", "--quiet", "--variant=extract", wanted, SUITE, tar]
    unpack: list[str | Path] = ["tar", "--no-same-owner", "-xf", tar, "-C", directory, "./usr"]
    for step in (get, unpack):
        if run(step, log, env=os.environ, cwd=directory) != 0:
            raise CannotGoOn(f"Debian's Python {VERSION} can't be had:\n{packages.last_lines(log)}\n{_advice()}")
    tar.unlink()


def settle(directory: Path) -> None:
    """Let it find its C library, its `python3` and pip where they lie."""
    (loader,) = directory.glob("usr/lib/*/ld-linux-*.so.*")
    programs = directory / "usr" / "bin"
    real = programs / f"python{VERSION}.real"
    (programs / f"python{VERSION}").rename(real)
    for name in ("python3", f"python{VERSION}"):
        (programs / name).write_text(START.format(library=loader.parent, loader=loader.name, real=real))
        (programs / name).chmod(0o755)
    for settings in (directory / "usr" / "lib" / f"python{VERSION}").glob("_sysconfigdata_*.py"):
        if not settings.is_symlink():
            settings.write_text(settings.read_text().replace(f"'/{WHEELS}", f"'{directory / WHEELS}"))


def _advice() -> str:
    return "the newest ansible-core needs Python 3.12 or later: put one with venv on the PATH."
