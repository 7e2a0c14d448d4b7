# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is pinned can be read, and every module folder has its checksums."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    ETCD,
    KUBERNETES_MINORS,
    MODULES,
    TOOLCHAIN,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import ClusterError


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_version_and_stamps_come_from_go_mod(minor: str) -> None:
    module = kubernetes(minor)
    assert module.version.startswith(f"{minor}.")
    assert f"gitVersion=v{module.version}" in module.ldflags()
    assert f"gitMinor={minor.split('.')[1]} " in module.ldflags()


def test_an_unknown_minor_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(ClusterError, match="1.36, 1.34"):
        kubernetes("1.20")


def test_everything_is_checksummed() -> None:
    assert ETCD.version.startswith("3.")
    folders = [path for path in MODULES.iterdir() if path.is_dir()]
    assert len(folders) >= 3
    for folder in folders:
        assert (folder / "go.sum").stat().st_size > 1000
    assert "--hash=sha256:" in TOOLCHAIN.read_text()
