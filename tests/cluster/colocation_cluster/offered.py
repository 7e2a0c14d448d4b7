# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Debian packages that a node can install although it has no network: with all that they need and it lacks.

They are packed anew with a compression that is quick to undo where the processor is emulated.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from .cache import cache_dir, content_key, made_once
from .cluster import Cluster
from .command import run
from .rootfs import PACKAGE_FOLDER, package_index, rootfs
from .say import ClusterError

STATUS = "var/lib/dpkg/status"
# apt sees what the node has, installs nothing, and keeps what it would install.
FETCH = """\
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -qq -y -o APT::Sandbox::User=root --download-only --no-install-recommends \
install {names} && cp "$1"/var/cache/apt/archives/*.deb {folder}
"""
# The index has what the image offers and each set that was brought.
TAKE = f"""\
cd /{PACKAGE_FOLDER} && tar -xf - && {{ [ -e Packages.image ] || cp Packages Packages.image; }} && \
cat Packages.image Packages.set-* > Packages.new && mv Packages.new Packages
"""


def packages(suite: str, names: Sequence[str]) -> Path:
    """A folder of packages and its index, for nodes of that Debian."""
    key = content_key(Path(__file__), rootfs(suite).name, *names)
    return made_once(
        cache_dir() / "packages" / f"{suite}-{names[0]}-{key}",
        lambda product: _fetch(product, suite, names, key),
        f"get {' '.join(names)} for Debian {suite}",
    )


def offer(cluster: Cluster, node: str, names: Sequence[str]) -> None:
    """Let a node's apt find these packages."""
    spec = cluster.spec
    suite = spec.nodes[cluster.machine(node).index - 1].suite or spec.suite
    folder = packages(suite, names)
    with subprocess.Popen(["tar", "-C", folder, "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        done = subprocess.run(
            cluster.ssh_argv(node, TAKE), stdin=tar.stdout, capture_output=True, text=True, check=False, timeout=300
        )
    if done.returncode != 0:
        raise ClusterError(f"{node}: bring {' '.join(names)}: {done.stdout}{done.stderr}")


def _fetch(product: Path, suite: str, names: Sequence[str], key: str) -> None:
    product.mkdir()
    fetched = product.with_name("fetched")
    fetched.mkdir()
    with tarfile.open(rootfs(suite)) as tar:
        found = tar.extractfile(f"./{STATUS}")
        (product.parent / "status").write_bytes(found.read() if found else b"")
    known = f'mkdir -p "$1/var/lib/dpkg" && cp {product.parent}/status "$1/{STATUS}"'
    fetch = FETCH.format(names=" ".join(names), folder=fetched)
    run(
        [
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            "--variant=custom",
            "--format=null",
            f"--setup-hook={known}",
            f"--customize-hook={fetch}",
            suite,
            "-",
        ],
        f"get {' '.join(names)}",
        limit=600,
    )
    for deb in fetched.glob("*.deb"):
        _pack_anew(deb, product / deb.name)
    (product / f"Packages.set-{key}").write_text(package_index(product) + "\n")


def _pack_anew(deb: Path, target: Path) -> None:
    tree = deb.with_suffix("")
    run(["dpkg-deb", "-R", deb, tree], f"unpack {deb.name}")
    run(["dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "-b", tree, target], f"pack {deb.name}")
    shutil.rmtree(tree)
