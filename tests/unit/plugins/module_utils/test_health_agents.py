# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which units are our agents, and which Python they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_agents import (
    ask_minor,
    parse_unit,
    read_agents,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import HealthNode

TEMPLATE = Path(__file__).parents[4] / "roles/device_plugin/templates/colocation-device-plugin.service.j2"


def test_the_roles_own_unit_is_known() -> None:
    text = TEMPLATE.read_text().replace("{{ agent_runtime_interpreter }}", "/usr/bin/python3")
    command, home = parse_unit(text.replace("{{ device_plugin_home }}", "/opt/colocation"))
    assert (command[0], home) == ("/usr/bin/python3", "/opt/colocation")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("", []),
        ("ExecStart=/usr/bin/sleep 1\n", []),
        ('ExecStart=/usr/bin/python3 -m colocation.start "open\n', []),
        (
            "ExecStart=-/usr/bin/python3.11 -m colocation.start x\n",
            ["/usr/bin/python3.11", "-m", "colocation.start", "x"],
        ),
    ],
)
def test_other_units_are_not(text: str, command: list[str]) -> None:
    assert parse_unit(text)[0] == command


@pytest.mark.parametrize(
    ("code", "out", "minor"),
    [(0, "Python 3.13.5\n", "3.13"), (127, "", ""), (0, "Python", ""), (1, "Python 3.9.1", "")],
)
def test_the_python_of_an_interpreter(code: int, out: str, minor: str) -> None:
    assert ask_minor(lambda _command: (code, out, ""), "/usr/bin/python3") == minor


def test_an_agent_without_a_release(tmp_path: Path) -> None:
    node = HealthNode(tmp_path)
    node.agent("colocation-device-plugin.service", "3.13")
    (tmp_path / "opt/colocation/current").unlink()
    (agent,) = read_agents(str(tmp_path), node.run)
    assert (agent.release, agent.made_for, agent.python) == ("", "", "3.13")
