# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A report's lines stay lines, however Ansible prints results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ ['node' ~ ' ' * 120 ~ 'taken', 'w1  ' ~ 'x' * 120 ~ '  3 of 25'] | colocation.kubernetes.unfolded }}"
"""


@pytest.mark.parametrize("shown_as", ["json", "yaml"])
def test_no_line_is_folded(tmp_path: Path, shown_as: str) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    collections = Path(__file__).parents[6]
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_RESULT_FORMAT": shown_as,
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    said = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    lines = said.splitlines()
    assert any("node " in line and "taken" in line for line in lines), said
    assert any("w1  x" in line and "3 of 25" in line for line in lines), said
