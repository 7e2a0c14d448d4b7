# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A made inventory whose nodes are directories of this machine, and ansible-playbook runs of agent_release on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import colocation
from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _agent_pip
from ansible_collections.colocation.kubernetes.tests.contract.agents.interpreters import interpreter
from ansible_collections.colocation.kubernetes.tests.ports import free_port

COLLECTIONS = Path(_agent_pip.__file__).parents[5]
AGENTS = Path(colocation.__file__).parent.parent
KNOWN = {version: interpreter(version) for version in yaml.safe_load((AGENTS / "targets.yml").read_text())["pythons"]}
PYTHONS = {version: found for version, found in KNOWN.items() if found}
ONE, PYTHON = next(iter(PYTHONS.items()))
PLAYBOOK = """\
- hosts: all
  gather_facts: false
  roles:
    - colocation.kubernetes.agent_runtime
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ {'release': agent_runtime_release, 'interpreter': agent_runtime_interpreter,
                      'task': __agent_runtime_installed} | to_json }}"
        dest: "{{ site }}/{{ inventory_hostname }}.json"
      check_mode: false
"""
UNINSTALL = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: colocation.kubernetes.agent_runtime
        tasks_from: uninstall
"""


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    output: str

    @property
    def words(self) -> str:
        """The output without line breaks, which Ansible puts where it likes."""
        return " ".join(self.output.split())

    def failed(self, words: str) -> bool:
        return self.status != 0 and words in self.words


class Site:
    """A cache of its own, and nodes."""

    def __init__(self, place: Path, cache: Path) -> None:
        self.place, self.cache = place, cache
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
            "ANSIBLE_HOME": str(place / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORKS": "5",
        }
        (place / "ansible.cfg").write_text("[defaults]\n")
        (place / "install.yml").write_text(PLAYBOOK)
        (place / "uninstall.yml").write_text(UNINSTALL)

    def source(self, code: str = "", lock: tuple[str, str] | None = None) -> Path:
        """A copy of the agents' distribution with more code, or something else in its locks."""
        copy = self.place / "source"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(AGENTS, copy, ignore=shutil.ignore_patterns("__pycache__"))
        with (copy / "colocation" / "device_plugin" / "__init__.py").open("a") as file:
            file.write(code)
        for path in (copy / "locks").iterdir() if lock else ():
            path.write_text(path.read_text().replace(*lock) if lock else "")
        return copy

    def node(self, name: str, interpreter: str, **variables: Any) -> dict[str, Any]:
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "agent_runtime_root": str(self.place / name),
            "agent_runtime_state_dir": str(self.place / "state"),
            "agent_runtime_python_interpreter": interpreter,
            **variables,
        }

    def run(
        self,
        nodes: dict[str, dict[str, Any]],
        *arguments: str,
        playbook: str = "install",
        before: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        controller: str = sys.executable,
        **variables: Any,
    ) -> Run:
        variables = {"site": str(self.place), "agent_runtime_cache_dir": str(self.cache), **variables}
        (self.place / "inventory.json").write_text(json.dumps({"all": {"hosts": nodes}}))
        command = [
            *before,
            controller,
            str(Path(sys.executable).with_name("ansible-playbook")),
            f"--inventory={self.place / 'inventory.json'}",
            f"--extra-vars={json.dumps(variables)}",
            *arguments,
            str(self.place / f"{playbook}.yml"),
        ]
        done = subprocess.run(
            command,
            env=self.environment | (environment or {}),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr)

    def told(self, name: str) -> dict[str, Any]:
        """What the role said of a node."""
        said: dict[str, Any] = json.loads((self.place / f"{name}.json").read_text())
        return said

    def releases(self, name: str) -> list[str]:
        directory = self.place / name / "releases"
        return sorted(os.listdir(directory)) if directory.is_dir() else []


def nodes(site: Site) -> dict[str, dict[str, Any]]:
    """A node for each Python, and a second one for the first."""
    named = {f"node-{version}": site.node(f"node-{version}", path) for version, path in PYTHONS.items()}
    return {**named, "twin": site.node("twin", PYTHON)}


def index_down() -> dict[str, str]:
    """A pip that can reach nothing."""
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": f"http://127.0.0.1:{free_port()}/simple",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "1",
    }
