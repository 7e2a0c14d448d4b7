# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Running programs: quiet when they succeed, their output in the error when they don't."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .say import ClusterError

PACKAGES = {  # which Debian or Ubuntu package brings a program that we call
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "socat": "socat",
}


def program(name: str) -> str:
    """The program's path, or an error that names the package to install."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise ClusterError(f"{name} is not installed; run: apt-get install {PACKAGES.get(name, name)}")
    return path


def run(
    argv: Sequence[str | Path],
    what: str,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    limit: float = 600,
) -> str:
    """Run to success and return standard output; otherwise an error that shows what the program said."""
    try:
        done = subprocess.run(
            [program(str(argv[0])), *map(str, argv[1:])],
            env=env,
            cwd=cwd,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{what}: no end within {limit:.0f} s\n{_text(error.stdout)}{_text(error.stderr)}") from None
    if done.returncode != 0:
        raise ClusterError(f"{what}: exit {done.returncode}\n{_last(done.stdout)}{_last(done.stderr)}".rstrip())
    return done.stdout


def _text(output: str | bytes | None) -> str:
    return _last(output.decode(errors="replace") if isinstance(output, bytes) else output or "")


def _last(text: str, lines: int = 40) -> str:
    return "".join(line + "\n" for line in text.splitlines()[-lines:])
