# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The examples in the documentation of node_health and kubelet_mend, run by a real Ansible on this machine.

This machine is no node, which is a finding like any other. Nothing is written: kubelet_mend runs in check mode.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.modules import kubelet_mend, node_health
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible

ON_A_NODE = Path("/etc/kubernetes/kubelet.conf").exists()


def ansible(place: Path, *words: str) -> str:
    status, output = run_ansible(place, *words)
    assert status == 0, output
    return output


def play(place: Path, module: ModuleType, **defaults: object) -> str:
    tasks = yaml.safe_load(module.EXAMPLES)
    name = f"colocation.kubernetes.{module.__name__.rpartition('.')[2]}"
    path = place / "examples.yml"
    content = {"hosts": "localhost", "gather_facts": False, "module_defaults": {name: defaults}, "tasks": tasks}
    path.write_text(yaml.safe_dump([content]))
    return str(path)


@pytest.mark.skipif(ON_A_NODE, reason="the example would wait for what a node lacks")
def test_node_health(tmp_path: Path) -> None:
    output = ansible(tmp_path, "ansible-playbook", play(tmp_path, node_health))
    assert "[kubelet-missing] no kubelet is installed" in output
    assert '"msg": "no kubelet is installed: Install the kubelet and join the node with kubeadm."' in output
    assert re.search(r"ok=4 +changed=0 ", output), output


def test_node_health_ad_hoc(tmp_path: Path) -> None:
    found = re.search(r"^# Ad hoc: (.+)$", node_health.EXAMPLES, re.M)
    assert found
    answer = json.loads(ansible(tmp_path, *shlex.split(found[1])).partition("=>")[2])
    assert answer["changed"] is False and answer["lines"][0] == answer["summary"]


def test_kubelet_mend(tmp_path: Path) -> None:
    output = ansible(
        tmp_path, "ansible-playbook", "--check", play(tmp_path, kubelet_mend, state_dir=str(tmp_path / "state"))
    )
    assert re.search(r"ok=[23] ", output), output
    assert not (tmp_path / "state").exists()
    if not ON_A_NODE:
        assert "/etc/kubernetes/kubelet.conf is not there" in output and "changed=0" in output
