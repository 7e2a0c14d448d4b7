# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A role by ansible-playbook on this machine, for roles whose work is in the cluster's API."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible

PLAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: colocation.kubernetes.{role}
        tasks_from: "{{{{ entry | default('main') }}}}"
"""


class RolePlay:
    """Runs the role with its variables; `entry` is another of its entry points."""

    def __init__(self, place: Path, role: str, variables: dict[str, Any]) -> None:
        self.place = place
        self._variables = {"ansible_python_interpreter": sys.executable, **variables}
        (place / "play.yml").write_text(PLAY.format(role=role))

    def __call__(self, *arguments: str, **said: Any) -> tuple[int, int, str]:
        """The status, how many tasks changed something, and all that was printed."""
        status, output = run_ansible(
            self.place,
            "ansible-playbook",
            "--inventory=localhost,",
            "--connection=local",
            f"--extra-vars={json.dumps({**self._variables, **said})}",
            "--diff",
            "-v",
            *arguments,
            str(self.place / "play.yml"),
            XDG_CACHE_HOME=str(self.place / "cache"),
        )
        changed = re.findall(r"localhost +: ok=\d+ +changed=(\d+)", output)
        return status, int(changed[-1]) if changed else -1, output
