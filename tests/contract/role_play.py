# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A role by ansible-playbook on this machine, for roles whose work is in the cluster's API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_objects

COLLECTIONS = Path(_kube_objects.__file__).parents[5]
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
        (place / "ansible.cfg").write_text("[defaults]\n")

    def __call__(self, *arguments: str, **said: Any) -> tuple[int, int, str]:
        """The status, how many tasks changed something, and all that was printed."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "K8S_", "KUBE"))}
        environment = kept | {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_CONFIG": str(self.place / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.place / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "XDG_CACHE_HOME": str(self.place / "cache"),
        }
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")), "--inventory=localhost,", "--connection=local",
            f"--extra-vars={json.dumps({**self._variables, **said})}", "--diff", "-v", *arguments,
            str(self.place / "play.yml"),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, check=False, env=environment, text=True, timeout=300)
        changed = re.findall(r"localhost +: ok=\d+ +changed=(\d+)", done.stdout)
        return done.returncode, int(changed[-1]) if changed else -1, done.stdout + done.stderr
