# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An Ansible of its own for a test: nothing of the machine's or the caller's settings, files or clusters reaches it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils import _files

ROOT = Path(_files.__file__).parents[2]
COLLECTIONS = ROOT.parents[2]
FOREIGN = ("ANSIBLE_", "K8S_", "KUBE")


def recap(output: str, host: str) -> dict[str, int]:
    """What the recap counts for a host: ok, changed, failed …"""
    (line,) = re.findall(rf"^{host} +: (.*)$", output, re.MULTILINE)
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)}


def ansible_environment(place: Path, collections: Path = COLLECTIONS, **more: str) -> dict[str, str]:
    """Its environment, with all that it writes under `place`; `collections` is where it finds the collection."""
    (place / "ansible.cfg").write_text("[defaults]\n")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)},
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_DISPLAY_FAILED_STDERR": "false",
        "ANSIBLE_HOME": str(place / "home"),
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_REMOTE_TEMP": str(place / "remote"),
        "ANSIBLE_SSH_ARGS": "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        "ANSIBLE_TIMEOUT": "5",
        **more,
    }


def run_ansible(
    place: Path, *words: str, collections: Path = COLLECTIONS, timeout: float = 300, **more: str
) -> tuple[int, str]:
    """A command of Ansible's, as it was called; its status and all that it printed."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]],
        capture_output=True,
        check=False,
        cwd=place,
        env=ansible_environment(place, collections, **more),
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout + done.stderr
