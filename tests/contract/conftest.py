# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where contract tests find the real counterparts. The cluster tool builds them and sets the variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

CONTAINERD_NEEDED = ("1.7", "2.3")  # the rest is tried where it is there
CONTAINERD_KNOWN = ("1.6", "1.7", "2.0", "2.1", "2.2", "2.3")


def _variable(version: str) -> str:
    return f"COLOCATION_CONTAINERD_{version.replace('.', '_')}"


@pytest.fixture(scope="session")
def containerd_binaries() -> Mapping[str, Path]:
    """Program by version, for example {"1.7": Path("/…/containerd")}."""
    found = {version: os.environ.get(_variable(version)) for version in CONTAINERD_KNOWN}
    return {version: Path(path) for version, path in found.items() if path}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `containerd_version` runs once for each that is needed or there."""
    if "containerd_version" in metafunc.fixturenames:
        there = [v for v in CONTAINERD_KNOWN if v in CONTAINERD_NEEDED or os.environ.get(_variable(v))]
        metafunc.parametrize("containerd_version", there)


@pytest.fixture
def containerd(containerd_binaries: Mapping[str, Path], containerd_version: str) -> Path:
    """The containerd program of this test's version."""
    if containerd_version not in containerd_binaries:
        pytest.skip(f"no containerd {containerd_version}: set {_variable(containerd_version)} to its path")
    return containerd_binaries[containerd_version]
