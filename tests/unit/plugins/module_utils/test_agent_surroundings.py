# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where the kubelet's identity is looked for."""

from __future__ import annotations

import platform
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_surroundings import look_around
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made


def kubelet(root: Path, *flags: str) -> str:
    process = root / "proc" / "42"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    (process / "cmdline").write_text("\0".join(["/usr/bin/kubelet", *flags, ""]))
    return str(root)


def test_the_running_kubelet_says_it(tmp_path: Path) -> None:
    conf = tmp_path / "kubelet.conf"
    pem = made.certificate("system:node:w1.example", 0, 1)
    conf.write_text(made.kubeconfig({"client-certificate-data": made.coded(pem), "client-key-data": made.coded("k")}))
    root = kubelet(tmp_path / "root", f"--kubeconfig={conf}", "--cert-dir", "/other/pki", "--hostname-override=w2")
    found = look_around(root, None, None)
    assert (found.kubeconfig, found.certificates, found.node) == (str(conf), "/other/pki", "w1.example")
    assert look_around(root, None, "w3").node == "w3"
    assert look_around(root, "/nowhere", None).node == "w2"


def test_without_a_kubelet_its_files_and_defaults_do(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    found = look_around(str(tmp_path), None, None)
    assert (found.kubeconfig, found.certificates) == ("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pki")
    assert found.node == platform.node().lower()
    flags = tmp_path / "etc" / "default"
    flags.mkdir(parents=True)
    (flags / "kubelet").write_text("KUBELET_EXTRA_ARGS=--kubeconfig=/nowhere/k.conf --hostname-override=w4\n")
    found = look_around(str(tmp_path), None, None)
    assert (found.kubeconfig, found.node) == ("/nowhere/k.conf", "w4")
