# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Debian root file systems: made by mmdebstrap from a package list, kept as tar files.

Nothing of Kubernetes is in them, so a new Kubernetes or a changed unit file doesn't make them again.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from .cache import cache_dir, content_key, made_once
from .command import run
from .say import ClusterError

IMAGE = Path(__file__).resolve().parent.parent / "image"
SUITES = ("trixie", "bookworm")
OFFERED = ("containerd", "runc")  # kept as packages on the node, so that they can be installed without a network
PACKAGE_FOLDER = "var/lib/test-packages"

# A small initramfs: only what finds the root disk. It boots faster where QEMU emulates the processor.
INITRAMFS = """
mkdir -p "$1/etc/initramfs-tools/conf.d"
echo MODULES=list > "$1/etc/initramfs-tools/conf.d/small"
printf '%s\\n' virtio_pci virtio_blk ext4 > "$1/etc/initramfs-tools/modules"
"""
OFFER = f"""
mkdir -p "$1/{PACKAGE_FOLDER}" && cd "$1/{PACKAGE_FOLDER}"
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -qq -o APT::Sandbox::User=root download {" ".join(OFFERED)}
"""


def rootfs(suite: str) -> Path:
    """The tar of a Debian of that suite with all that a node needs, except Kubernetes."""
    if suite not in SUITES:
        raise ClusterError(f"no recipe for Debian {suite}; choose one of {', '.join(SUITES)}")
    key = content_key(suite, IMAGE / "packages.txt", INITRAMFS, OFFER)
    return made_once(
        cache_dir() / "rootfs" / f"{suite}-{key}.tar", lambda tar: _bootstrap(suite, tar), f"make Debian {suite}"
    )


def _bootstrap(suite: str, tar: Path) -> None:
    lines = (line.split("#")[0].strip() for line in (IMAGE / "packages.txt").read_text().splitlines())
    run(
        [
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            "--format=tar",
            "--variant=minbase",
            f"--include={','.join(line for line in lines if line)}",
            *(f"--dpkgopt=path-exclude=/usr/share/{what}/*" for what in ("doc", "man", "locale", "info")),
            f"--extract-hook={INITRAMFS}",
            f"--customize-hook={OFFER}",
            suite,
            tar,
        ],
        f"mmdebstrap {suite}",
        limit=1800,
    )


def package_index(folder: Path) -> str:
    """The `Packages` file of a flat apt repository."""
    entries = []
    for deb in sorted(folder.glob("*.deb")):
        digest = content_digest(deb)
        fields = run(["dpkg-deb", "-f", deb], f"read {deb.name}").rstrip()
        entries.append(f"{fields}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
    return "\n".join(entries)


def content_digest(path: Path) -> str:
    return subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]


def members(tar: tarfile.TarFile, packages: Iterable[str]) -> Iterator[tarfile.TarInfo]:
    """The files that these Debian packages own in a root file system (merged /usr understood)."""
    by_name = {member.name.removeprefix("./"): member for member in tar.getmembers()}
    wanted: set[str] = set()
    for package in packages:
        info = next(
            (name for name in (f"var/lib/dpkg/info/{package}.list", f"var/lib/dpkg/info/{package}:amd64.list")
             if name in by_name), None
        )  # fmt: skip
        listing = tar.extractfile(by_name[info]) if info else None
        if listing is None:
            raise ClusterError(f"package {package} is not in the root file system; see tests/cluster/image")
        wanted.update(_merged(line.strip("/")) for line in listing.read().decode().splitlines())
    for name in sorted(wanted):
        if name in by_name:
            yield by_name[name]


def _merged(path: str) -> str:
    """Where a file of the package lies after Debian's merge of /bin, /sbin and /lib into /usr."""
    return f"usr/{path}" if path.split("/")[0] in ("bin", "sbin", "lib", "lib64") else path
