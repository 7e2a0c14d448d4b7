# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The example inventories: Ansible reads them, and each variable is one of a role's, with a value that it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from colocation.common.settings import read
from colocation.device_plugin.config import Config

COLLECTION = Path(__file__).parents[3]
INVENTORIES = sorted((COLLECTION / "docs" / "inventories").glob("*.yml"))
CHECKED = ("type", "elements", "choices", "required", "options")


@pytest.fixture(params=INVENTORIES, ids=lambda file: file.stem)
def inventory(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What Ansible makes of it; a warning of its own is an error here."""
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "--inventory", str(request.param), "--list"]
    said = {"ANSIBLE_INVENTORY_UNPARSED_FAILED": "true", "HOME": "/home/somebody"}
    done = subprocess.run(command, env={**os.environ, **said}, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def variables(inventory: dict[str, Any]) -> dict[str, Any]:
    """Of all hosts, without Ansible's own; the examples say the same to all hosts that have one."""
    merged: dict[str, Any] = {}
    for of_host in inventory["_meta"]["hostvars"].values():
        merged |= {name: value for name, value in of_host.items() if not name.startswith("ansible_")}
    return merged


def specs() -> dict[str, dict[str, Any]]:
    """The options of each role, as far as values are checked against them."""
    files = COLLECTION.glob("roles/*/meta/argument_specs.yml")
    every = (yaml.safe_load(file.read_text())["argument_specs"]["main"]["options"] for file in files)
    return {
        name: {key: value for key, value in option.items() if key in CHECKED}
        for options in every
        for name, option in options.items()
    }


def problems(said: dict[str, Any]) -> list[str]:
    """What is wrong with variables, as a role would say it."""
    known = specs()
    unknown = [f"no role has {name}" for name in said if name not in known]
    mine = {name: known[name] for name in said if name in known}
    found: list[str] = ArgumentSpecValidator(mine).validate({name: said[name] for name in mine}).error_messages
    return unknown + found


def test_there_are_hosts_in_the_groups_that_the_playbooks_take(inventory: dict[str, Any]) -> None:
    assert inventory["kube_node"]["hosts"]
    said = variables(inventory)
    assert "kube_control_plane" in inventory or said["preflight_skip"] == ["group-kube-control-plane"]


def test_every_variable_is_one_of_a_role_with_a_value_that_it_takes(inventory: dict[str, Any]) -> None:
    said = variables(inventory)
    assert len(said) > 3
    assert problems(said) == []


def test_the_agent_takes_what_is_said_to_it(inventory: dict[str, Any], tmp_path: Path) -> None:
    said = variables(inventory)
    file = tmp_path / "device-plugin.yaml"
    reclaim = said.get("device_plugin_reclaim", {})
    file.write_text(json.dumps({**said["device_plugin_resources"], "reclaim": reclaim}))
    assert read(Config, str(file)).memory


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"scheduler_enabeld": True}, "no role has scheduler_enabeld"),
        ({"scheduler_mode": "static"}, "value of scheduler_mode must be one of"),
        ({"agent_runtime_keep_releases": "many"}, "agent_runtime_keep_releases"),
    ],
)
def test_mistakes_are_found(said: dict[str, Any], told: str) -> None:
    (found,) = problems(said)
    assert told in found
