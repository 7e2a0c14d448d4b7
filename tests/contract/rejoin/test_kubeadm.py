# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The real kubeadm of each Kubernetes takes the configuration that we write for it, and its version is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_look import kubeadm_version
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_token import join_configuration, pins
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    binary,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.credentials_made import AUTHORITY


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
@pytest.mark.parametrize("version", [(1, 24), (1, 36)])  # each form while this kubeadm knows it
def test_kubeadm_takes_the_configuration(minor: str, version: tuple[int, int], tmp_path: Path) -> None:
    kubeadm = binary(kubernetes(minor), "kubeadm")
    way = {"endpoint": "10.0.0.1:6443", "pins": pins(AUTHORITY), "token": "abcdef.0123456789abcdef"}
    path = tmp_path / "join.json"
    flags = {"node-ip": "10.0.0.2", "cloud-provider": "external"}
    path.write_text(join_configuration(version, "worker1", "/run/containerd/containerd.sock", way, flags))
    done = subprocess.run(
        [kubeadm, "config", "validate", "--config", path], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    path.write_text(path.read_text().replace("caCertHashes", "caCertHash"))
    done = subprocess.run(
        [kubeadm, "config", "validate", "--config", path], capture_output=True, check=False, text=True
    )
    assert done.returncode != 0 or "caCertHash" in done.stderr, "kubeadm does not look"


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_its_version_is_read(minor: str, tmp_path: Path) -> None:
    place = tmp_path / "usr/bin"
    place.mkdir(parents=True)
    (place / "kubeadm").symlink_to(binary(kubernetes(minor), "kubeadm"))
    found = kubeadm_version(str(tmp_path), lambda command: run_for([str(tmp_path) + command[0], *command[1:]], 30))
    assert found == (1, int(minor.partition(".")[2]))
