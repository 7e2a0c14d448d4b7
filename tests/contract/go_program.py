# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Small programs in Go for tests, made of a Kubernetes' own code: built once in the folder of one that is pinned."""

from __future__ import annotations

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


def program(source: Path, minor: str = KUBERNETES_MINORS[0]) -> Path:
    """What was built of a source file; the first time takes minutes."""
    module = kubernetes(minor)
    name = source.stem.replace("_", "-")
    target = cache_dir() / "bin" / f"{name}-{minor}-{content_key(source, module.path / 'go.sum')}" / name

    def build(product: Path) -> None:
        argv: list[str | Path] = [go(), "build", "-mod=readonly", "-o", product, source]
        run(argv, f"go build {name}", env=go_environment(), cwd=module.path, limit=2400)

    return made_once(target, build, f"build {name} with Kubernetes {module.version}")
