# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Both ends of the CRI with Kubernetes' own API and gRPC library, built once (cri_parts.go)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    go,
    go_environment,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import (
    cache_dir,
    content_key,
    made_once,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.command import run

SOURCE = Path(__file__).with_suffix(".go")


def program(minor: str = KUBERNETES_MINORS[0]) -> Path:
    """The built program; the first time takes a minute."""
    module = kubernetes(minor)
    key = content_key(SOURCE, module.path / "go.sum")
    target = cache_dir() / "bin" / f"cri-parts-{minor}-{key}" / "cri-parts"

    def build(product: Path) -> None:
        argv: list[str | Path] = [go(), "build", "-mod=readonly", "-o", product, SOURCE]
        run(argv, "go build cri-parts", env=go_environment(), cwd=module.path, limit=2400)

    return made_once(target, build, f"build both ends of the CRI of {module.version}")


class RuntimeDouble:
    """A runtime that runs nothing, on a socket."""

    def __init__(self, socket: Path) -> None:
        self._process = subprocess.Popen([program(), "serve", socket], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
