# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The real counterparts of the contract tests, built by the cluster tool where they are not there yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import binary
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    containerd as containerd_module,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

CONTAINERD_BUILT = ("1.7", "2.3")
CONTAINERD_KNOWN = ("1.6", "1.7", "2.0", "2.1", "2.2", "2.3")  # another one is tried where a variable names it


def _variable(version: str) -> str:
    return f"COLOCATION_CONTAINERD_{version.replace('.', '_')}"


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real API server without nodes, for all that ask for it; whoever kills it starts it again."""
    with ApiServer(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture(scope="session")
def containerd_binaries() -> Mapping[str, Path]:
    """Program by version, for example {"1.7": Path("/…/containerd")}."""
    built = {version: binary(containerd_module(version), "containerd") for version in CONTAINERD_BUILT}
    named = {version: os.environ.get(_variable(version)) for version in CONTAINERD_KNOWN}
    return {**built, **{version: Path(path) for version, path in named.items() if path}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `containerd_version` runs once for each."""
    if "containerd_version" in metafunc.fixturenames:
        there = [v for v in CONTAINERD_KNOWN if v in CONTAINERD_BUILT or os.environ.get(_variable(v))]
        metafunc.parametrize("containerd_version", there)


@pytest.fixture
def containerd(containerd_binaries: Mapping[str, Path], containerd_version: str) -> Path:
    """The containerd program of this test's version."""
    return containerd_binaries[containerd_version]
