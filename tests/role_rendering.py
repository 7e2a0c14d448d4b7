# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a role's variables and templates come to, without a play: for tests and benchmarks of what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).parents[1] / "roles"
# Full names are for the loader of collections, which would take over the imports of the whole process.
PREFIX = "ansible.builtin."


class Rendered:
    """A role's defaults and internal variables under what a user says; each name is a variable's value."""

    def __init__(self, role: str, **said: Any) -> None:
        folder = ROLES / role
        named = [folder / "defaults/main.yml", folder / "vars/main.yml"]
        known: dict[str, Any] = {"ansible_search_path": [str(folder)], "groups": {}, "hostvars": {}}
        for file in named:
            if file.exists():
                known.update(_trusted(yaml.safe_load(file.read_text())))
        known.update(said)
        self._templar = Templar(DataLoader(), known)

    def __getitem__(self, name: str) -> Any:
        value = self._templar.template(trust_as_template("{{ " + name + " }}"))
        return json.loads(json.dumps(value))  # without Ansible's marks on texts


def _trusted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trusted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_trusted(one) for one in value]
    return trust_as_template(value.replace(PREFIX, "")) if isinstance(value, str) else value
