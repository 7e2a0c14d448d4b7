# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""System packages: which part needs which, and apt-get for those that are missing.

To add one, add a line to TABLE. A package counts as there when its command or file is found, however it came.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .process import run
from .report import CannotGoOn

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package and the command by which it is recognized, or a file of it, by its whole path."""

    name: str
    command: str
    optional: bool = False  # a check is skipped, and says so, where it can't be had


GIT = Package("git", "git")
MMDEBSTRAP = (  # on Ubuntu Debian's keys are a package that nothing else brings, and mmdebstrap finds them by gpg
    Package("mmdebstrap", "mmdebstrap"),
    Package("debian-archive-keyring", "/usr/share/keyrings/debian-archive-keyring.gpg"),
    Package("gpg", "gpg"),
)
CLUSTER = (  # what makes and runs VMs, node images and the network between them
    Package("qemu-system-x86", "qemu-system-x86_64"),
    Package("qemu-utils", "qemu-img"),
    *MMDEBSTRAP,
    Package("iproute2", "ip"),
    Package("socat", "socat"),
    Package("e2fsprogs", "mkfs.ext4"),
    Package("openssh-client", "ssh"),
)
# Chromium without a window: half of Chromium's size (100 MB to fetch, 306 MB on the disk), and of this decade, which
# wkhtmltopdf (26 MB, an engine of 2016 that knows no custom properties) is not. Ubuntu has it as a snap only.
BROWSER = Package("chromium-headless-shell", "chromium-headless-shell", optional=True)
TABLE: Mapping[str, Sequence[Package]] = {
    "lint": (GIT, Package("shellcheck", "shellcheck", optional=True)),
    "sanity": (GIT,),
    "unit": (GIT,),
    "contract": (GIT, *CLUSTER, BROWSER),
    "molecule": (GIT, *CLUSTER),
    "long": (GIT, *CLUSTER),
    "demo": (GIT, *CLUSTER),
    "bench": (GIT, *CLUSTER),
}


def missing(parts: Iterable[str], search_path: str | None = None) -> list[Package]:
    """The packages that these parts need and this machine lacks, each once, in the order of the table."""
    needed = dict.fromkeys(package for part in parts for package in TABLE[part])
    return [package for package in needed if command_of(package, search_path) is None]


def command_of(package: Package, search_path: str | None = None) -> str | None:
    """Where its command or file is; None where this machine lacks it."""
    if package.command.startswith("/"):
        return package.command if Path(package.command).exists() else None
    path = search_path if search_path is not None else os.environ.get("PATH", "") + ":" + SEARCH_PATH
    return shutil.which(package.command, path=path)


def install(packages: Sequence[Package], log: Path) -> list[Package]:
    """Install packages; returns the optional ones that could not be had."""
    required = [package.name for package in packages if not package.optional]
    if required:
        apt_install(required, log)
    left_out = []
    for package in packages:
        if package.optional:
            try:
                apt_install([package.name], log.with_suffix(f".{package.name}.log"))
            except CannotGoOn:
                left_out.append(package)
    return left_out


def apt_install(names: Sequence[str], log: Path) -> None:
    """Install packages by apt-get; the package lists are fetched where they do not do."""
    wanted = " ".join(names)
    by_hand = f"install by hand what these packages bring, then run this again: {wanted}"
    if shutil.which("apt-get") is None:
        raise CannotGoOn(f"This machine lacks: {wanted}. It has no apt-get (it is not a Debian or Ubuntu); {by_hand}.")
    if os.geteuid() != 0:
        raise CannotGoOn(f"This machine lacks: {wanted}. Run this as root, or: sudo apt-get install {wanted}")
    command = ["apt-get", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install", *names]
    if _apt(command, log) == 0:
        return
    update = log.with_suffix(".update.log")
    _apt(["apt-get", "-q", "update"], update)
    if _apt(command, log) == 0:
        return
    raise CannotGoOn(
        f"apt-get can't install: {wanted}\n{last_lines(log)}\n"
        f"Fetching the package lists before said:\n{last_lines(update, 3)}\n"
        f"Is the network there, and do the machine's apt sources offer these packages? Else {by_hand}."
    )


def offered(name: str) -> bool:
    """Whether the package lists on this machine offer a package."""
    if shutil.which("apt-cache") is None:
        return False
    command = ["apt-cache", "policy", name]
    answer = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False)
    return "Candidate:" in answer.stdout and "Candidate: (none)" not in answer.stdout


def refresh_lists(log: Path) -> None:
    """Fetch the package lists; a failure shows when something is then missing."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _apt(["apt-get", "-q", "update"], log)


def last_lines(log: Path, number: int = 8) -> str:
    """The end of a log, indented."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join("    " + line for line in lines[-number:])


def _apt(command: Sequence[str], log: Path) -> int:
    return run(command, log, env=_environment(), cwd=Path("/"))


def _environment() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
