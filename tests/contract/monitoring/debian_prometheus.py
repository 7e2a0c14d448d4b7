# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Prometheus, promtool and the node exporter of Debian's packages, unpacked into the cache and not installed: no unit
is made, and nothing goes on listening on a machine on which tests were run once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import cache_dir, made_once

PACKAGES = ("prometheus", "prometheus-node-exporter")


def program(name: str) -> Path:
    """A program of them; the test is skipped, and says why, where it can't be had."""
    found = shutil.which(name)
    if found:
        return Path(found)
    if shutil.which("apt-get") is None:
        pytest.skip(f"{name} is not installed, and there is no apt-get to fetch it")
    folder = made_once(cache_dir() / "tools" / "debian-prometheus", _unpack, "unpack Debian's Prometheus")
    return folder / "usr" / "bin" / name


def _unpack(product: Path) -> None:
    product.mkdir()
    fetch = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *PACKAGES]
    done = subprocess.run(
        fetch, cwd=product, capture_output=True, check=False, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0:
        pytest.skip(f"Debian's prometheus can't be fetched: {done.stderr[-300:]}")
    for package in product.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, product], check=True)
        package.unlink()
