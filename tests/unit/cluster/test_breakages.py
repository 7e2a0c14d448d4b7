# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The recipes that break a node are shell scripts; here only what can be known of them without a VM."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_config
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import ExecPlugin
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import read_kubeconfig
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_exec import run_plugin
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    identity_in,
    kubeconfig_in,
    kubelets_kubeconfig,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_parse import parse_fstab
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.breakages import (
    BREAKAGES,
    CREDENTIALS_PROGRAM,
    PROGRAMS_KUBECONFIG,
    UNSUITABLE,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made

EXPECTED = {
    "swap-file",
    "swap-partition",
    "swap-gpt-auto",
    "swap-unit",
    "swap-zram",
    "containerd-stopped",
    "containerd-masked",
    "cni-record-cut",
    "containerd-cgroupfs",
    "containerd-unparsable",
    "kubelet-disabled",
    "kubelet-conf-lost",
    "kubelet-config-lost",
    "kubelet-identity-lost",
}
WELL = {"kubelet-kubeconfig-elsewhere"}  # another kind of node, with nothing to repair


def test_all_ways_to_break_a_node_are_there() -> None:
    assert set(BREAKAGES) == EXPECTED | WELL
    assert {name for name, breakage in BREAKAGES.items() if not breakage.ill} == WELL
    assert all(name == breakage.name for name, breakage in BREAKAGES.items())


def test_the_repair_is_shown_with_each_of_them() -> None:
    scenario = Path(__file__).parents[3] / "molecule/repair/converge.yml"
    (play,) = yaml.safe_load(scenario.read_text())
    rounds = [nodes for nodes in play["vars"].values() if isinstance(nodes, dict)]
    shown = {name for nodes in rounds for node in nodes.values() for name in node["broken"]}
    assert shown == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED | WELL))
def test_script_and_check_parse(name: str) -> None:
    for text in (BREAKAGES[name].script, BREAKAGES[name].check):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_script_would_be_noticed() -> None:
    assert subprocess.run(["bash", "-n"], input="if true; then", capture_output=True, text=True, check=False).returncode


@pytest.mark.parametrize("name", sorted(EXPECTED | WELL))
def test_a_script_stops_at_the_first_failure(name: str) -> None:
    assert BREAKAGES[name].script.startswith("set -eu\n")


@pytest.mark.parametrize("name", ["swap-partition", "swap-gpt-auto"])
def test_a_missing_disk_is_said(name: str, tmp_path: Path) -> None:
    script = BREAKAGES[name].script.replace("/dev/vdb", str(tmp_path / "no-disk"))
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == UNSUITABLE
    assert "second disk" in done.stderr


def test_the_program_prints_a_certificate_and_its_key_as_a_kubelet_takes_them(tmp_path: Path) -> None:
    pem, program = tmp_path / "current.pem", tmp_path / "kubelet-credentials"
    certificate, key = credentials_made.certificate("system:node:w1", 0, 1), credentials_made.key()
    pem.write_text(certificate + key)
    program.write_text(CREDENTIALS_PROGRAM.replace("/var/lib/kubelet/pki/kubelet-client-current.pem", str(pem)))
    program.chmod(0o755)
    plugin = ExecPlugin("client.authentication.k8s.io/v1", str(program))
    printed = run_plugin(plugin)
    assert (printed.certificate, printed.key) == (certificate, key)


@pytest.mark.parametrize("with_yaml", [True, False])
def test_the_kubeconfig_of_the_program_can_be_read_on_nodes(monkeypatch: pytest.MonkeyPatch, with_yaml: bool) -> None:
    if not with_yaml:
        monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)
    access = identity_in(kubeconfig_in(PROGRAMS_KUBECONFIG + "https://10.0.0.1:6443\n", "/var/lib/kubelet/kubeconfig"))
    assert (access.server, access.ca.file) == ("https://10.0.0.1:6443", "/etc/kubernetes/pki/ca.crt")
    assert access.exec_plugin and access.exec_plugin.command == "/usr/local/bin/kubelet-credentials"


def test_what_the_recipe_writes_makes_the_kubelet_another(tmp_path: Path) -> None:
    """The script itself, in a tree of its own, with a systemctl that does nothing; and again."""
    script = BREAKAGES["kubelet-kubeconfig-elsewhere"].script
    for place in ("/var/lib/kubelet", "/etc/", "/usr/local/bin/kubelet-credentials"):
        script = script.replace(place, f"{tmp_path}{place}")
    for folder in ("var/lib/kubelet/pki", "etc/kubernetes", "usr/local/bin", "usr/lib/systemd/system", "proc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/lib/kubelet/pki/kubelet-client-current.pem").write_text("pem")
    (tmp_path / "var/lib/kubelet/config.yaml").write_text("a: b\nrotateCertificates: true\n")
    (tmp_path / "etc/kubernetes/kubelet.conf").write_text("clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n")
    unit = "[Service]\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_EXTRA_ARGS\n"
    (tmp_path / "usr/lib/systemd/system/kubelet.service").write_text(unit)
    for _again in range(2):
        text = script.replace("systemctl ", "true ")
        subprocess.run(["bash"], input=text, text=True, check=True, timeout=30)
        assert kubelets_kubeconfig(str(tmp_path)) == f"{tmp_path}/var/lib/kubelet/kubeconfig"
        access = identity_in(read_kubeconfig(f"{tmp_path}/var/lib/kubelet/kubeconfig"))
        assert access.server == "https://10.0.0.1:6443"
        assert not (tmp_path / "etc/kubernetes/kubelet.conf").exists()
        assert "rotateCertificates: false" in (tmp_path / "var/lib/kubelet/config.yaml").read_text()


def test_fstab_lines_of_the_recipes_are_swap_lines() -> None:
    printed = re.search(r"printf '(/swapfile.*?)\\n'", BREAKAGES["swap-file"].script)
    line = re.search(r"line='(.*)'", BREAKAGES["swap-partition"].script)
    assert printed is not None
    assert line is not None
    for text in (printed.group(1).replace("\\t", "\t"), line.group(1)):
        (swap,) = parse_fstab(text.encode())
        assert not swap.noauto


def test_the_double_of_the_gpt_generator_writes_its_unit(tmp_path: Path) -> None:
    """It is run here on a made-up fstab: it makes the unit, and keeps away when fstab names swap."""
    script = BREAKAGES["swap-gpt-auto"].script
    generator = script.split("<<'GENERATOR'\n")[1].split("GENERATOR\n")[0]
    fstab = tmp_path / "fstab"
    generator = generator.replace("/etc/fstab", str(fstab)).replace("/sys/block/vdb/diskseq", str(tmp_path / "seq"))
    (tmp_path / "seq").write_text("9\n", "utf-8")
    unit = "dev-disk-by\\x2ddiskseq-9\\x2dpart1.swap"
    for number, (text, made) in enumerate((("# /x none swap sw\n/dev/a / ext4\n", True), ("/x none swap sw\n", False))):
        out = tmp_path / str(number)
        out.mkdir()
        fstab.write_text(text, "utf-8")
        subprocess.run(["sh", "-c", generator, "generator", "/normal", "/early", str(out)], check=True)
        assert (out / unit).exists() is made
        assert (out / "swap.target.wants" / unit).exists() is made
    made_unit = tmp_path / "0" / "swap.target.wants" / unit
    assert "What=/dev/disk/by-diskseq/9-part1\n" in made_unit.read_text("utf-8")
    assert os.readlink(made_unit) == f"../{unit}"
