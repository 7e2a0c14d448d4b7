# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role itself, by ansible-playbook: the node and the control-plane host are this machine, in other directories."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible

PLAYBOOK = """\
- hosts: kube_node
  gather_facts: false
  roles:
    - role: colocation.kubernetes.credentials
      tags: [credentials]
"""
UNINSTALL = """\
- hosts: kube_node
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: colocation.kubernetes.credentials
        tasks_from: uninstall.yml
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run ended with and all that it printed, at the highest verbosity."""

    status: int
    output: str

    @property
    def changed(self) -> int:
        return int(re.findall(r"worker +: ok=\d+ +changed=(\d+)", self.output)[-1])

    @property
    def problem(self) -> str:
        """The last error, in one line."""
        return " ".join(self.output.rpartition("[ERROR]")[2].split())


class Site:
    """An inventory of one node, and its variables."""

    def __init__(self, directory: Path, control_plane: bool = True) -> None:
        self.directory = directory
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        groups = {"kube_node": {"hosts": {"worker": local}}}
        if control_plane:
            groups["kube_control_plane"] = {"hosts": {"master": local}}
        directory.mkdir(exist_ok=True)
        (directory / "inventory.json").write_text(json.dumps({"all": {"children": groups}}))
        (directory / "site.yml").write_text(PLAYBOOK)
        (directory / "uninstall.yml").write_text(UNINSTALL)

    def run(self, play: str = "site", *arguments: str, **variables: Any) -> Run:
        values = {f"credentials_{name}": value for name, value in variables.items()}
        return Run(
            *run_ansible(
                self.directory,
                "ansible-playbook",
                f"--inventory={self.directory}/inventory.json",
                f"--extra-vars={json.dumps(values)}",
                "--diff",
                "-vvv",
                *arguments,
                str(self.directory / f"{play}.yml"),
                ANSIBLE_DISPLAY_FAILED_STDERR="true",
            )
        )
