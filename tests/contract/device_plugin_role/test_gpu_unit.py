# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The unit of GPU memory by ansible-playbook over a made, mixed cluster: every host is this machine, with a double of
nvidia-smi of its own, or a file that stands for GPUs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _findings

COLLECTIONS = Path(_findings.__file__).parents[5]
RESOURCE = "doslab.io/gpu-memory"
PLAYBOOK = """\
- hosts: kube_node
  gather_facts: false
  environment: {PATH: "{{ path }}"}
  tasks:
    - ansible.builtin.include_role:
        name: colocation.kubernetes.preflight
        tasks_from: gpus.yml
      vars:
        _preflight_gpus: "{{ device_plugin_resources.gpu.values() | first | default({}, true) }}"
      when: looked_at | default(true) | bool
- hosts: kube_node
  gather_facts: false
  serial: 1
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role:
        name: colocation.kubernetes.device_plugin
        tasks_from: gpu_unit.yml
        public: true
    - ansible.builtin.debug:
        msg: "{{ inventory_hostname }} offers {{ __device_plugin_offers_gpus }} in {{ unit }}"
      vars:
        unit: "{{ __device_plugin_gpu_own_unit_mib }}"
"""
SMI = """#!/bin/sh
[ "$*" = "--query-gpu=memory.total --format=csv,noheader,nounits" ] || exit 3
{does}
"""


class Cluster:
    """Hosts and what they have."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.hosts: dict[str, Any] = {}
        (place / "ansible.cfg").write_text("[defaults]\n")
        (place / "site.yml").write_text(PLAYBOOK)

    def host(self, name: str, smi: str | None = None, file: list[int] | None = None, **settings: Any) -> None:
        folder = self.place / name
        folder.mkdir()
        if smi is not None:
            (folder / "nvidia-smi").write_text(SMI.format(does=smi))
            (folder / "nvidia-smi").chmod(0o755)
        if file is not None:
            gpus = [{"uuid": f"GPU-{n}", "memoryMiB": mib} for n, mib in enumerate(file)]
            (folder / "gpus.yaml").write_text(json.dumps({"gpus": gpus}))
            settings["double_file"] = str(folder / "gpus.yaml")
        self.hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "path": f"{folder}:/usr/bin:/bin",
            "device_plugin_resources": {"gpu": {RESOURCE: settings or None}},
        }

    def run(self, **said: Any) -> tuple[int, str]:
        inventory = self.place / "hosts.json"
        inventory.write_text(json.dumps({"kube_node": {"hosts": self.hosts}}))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment = kept | {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_CONFIG": str(self.place / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.place / "home"),
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory),
            f"--extra-vars={json.dumps(said)}", str(self.place / "site.yml"),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, check=False, env=environment, text=True, timeout=300)
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_one_unit_for_a_mixed_cluster(cluster: Cluster) -> None:
    cluster.host("small", smi='printf "16384\\n16384\\n"')
    cluster.host("large", file=[81920] * 8)
    cluster.host("none")
    cluster.host("asleep", smi='echo "No devices were found"; exit 6')
    status, said = cluster.run()
    assert status == 0, said
    found = dict(re.findall(r"(\w+) offers (True in \d+|False)", said))
    assert found == {"small": "True in 32", "large": "True in 32", "none": "False", "asleep": "False"}


def test_one_host_that_gives_several_gpus_counts_for_all(cluster: Cluster) -> None:
    cluster.host("one", file=[81920] * 2)
    cluster.host("several", file=[16384] * 8, allow_multi_gpu=True)
    cluster.host("more", file=[81920] * 8)
    status, said = cluster.run()
    assert status == 0, said
    assert re.findall(r"(\w+) offers (True in \d+|False)", said) == [
        (name, "True in 256") for name in ("one", "several", "more")
    ]


def test_a_driver_that_is_broken_is_not_taken_for_none(cluster: Cluster) -> None:
    cluster.host("broken", smi='echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18')
    status, said = cluster.run()
    assert status != 0
    assert "Driver/library version mismatch" in said


def test_a_driver_that_hangs_is_not_waited_for(cluster: Cluster) -> None:
    cluster.host("hangs", smi="exec sleep 100")
    status, said = cluster.run(preflight_timeout=5)
    assert status != 0
    assert "what GPUs these have was not looked at: hangs." in said


def test_units_that_differ_are_refused_with_one_that_suits_all(cluster: Cluster) -> None:
    cluster.host("one", file=[16384], unit_mib=4)
    cluster.host("other", file=[81920], unit_mib=64)
    status, said = cluster.run()
    assert status != 0
    assert "The nodes have different units of GPU memory: 4, 64 MiB." in said
    assert "32 suits them all" in said


def test_nothing_is_chosen_blindly(cluster: Cluster) -> None:
    cluster.host("one", file=[16384])
    status, said = cluster.run(looked_at=False)
    assert status != 0
    assert "what GPUs these have was not looked at: one." in said
    cluster.hosts["one"]["device_plugin_resources"]["gpu"][RESOURCE]["unit_mib"] = 8
    status, said = cluster.run(looked_at=False)
    assert status == 0, said
    assert "one offers True in 8" in said
