# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Programs of Debian's packages, unpacked into the cache and not installed: installing them would start services."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import cache_dir, made_once


def unpacked(place: str, packages: Sequence[str]) -> Path:
    """The folder with what is in these packages; `place` is its name in the cache."""

    def unpack(target: Path) -> None:
        target.mkdir()
        download = ["apt-get", "download", *packages]
        if subprocess.run(download, cwd=target, capture_output=True, check=False).returncode:
            subprocess.run(["apt-get", "update"], capture_output=True, check=True)
            subprocess.run(download, cwd=target, capture_output=True, check=True)
        for package in list(target.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(target)], check=True)
            package.unlink()

    return made_once(cache_dir() / place, unpack, f"get {', '.join(packages)} from Debian")
