# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which units are our agents, and which Python they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_page import read_page
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_agents import (
    ask_minor,
    parse_unit,
    read_agents,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import Page
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import HealthNode
from colocation.common.status import Status, to_json

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


def test_an_agent_that_is_up_is_asked_where_its_configuration_says(tmp_path: Path) -> None:
    node = HealthNode(tmp_path)
    node.agent("colocation-device-plugin.service", "3.13")
    node.write("etc/x.yaml", "mock:\n    mock.com/gpu: 10\nstatus:\n    port: 9461\n")
    asked: list[str] = []

    def answer(url: str) -> tuple[int, str]:
        asked.append(url)
        return 200, to_json(Status("device-plugin", "0.1.0", "all is well", ("it is slow",), (("machine", "small"),)))

    (agent,) = read_agents(str(tmp_path), node.run, answer)
    assert asked == ["http://127.0.0.1:9461/status"]
    assert agent.page == Page(asked[0], "", "0.1.0", "all is well", ("it is slow",), {"machine": "small"})


@pytest.mark.parametrize("config", ["", "status: {}\n", "status:\n  port: none\n", "status: 1\n", "a: [1]\n"])
def test_nobody_is_asked_where_nothing_tells_where(tmp_path: Path, config: str) -> None:
    node = HealthNode(tmp_path)
    node.agent("colocation-device-plugin.service", "3.13")
    node.write("etc/x.yaml", config)
    (agent,) = read_agents(str(tmp_path), node.run, lambda url: pytest.fail(f"{url} was asked"))
    assert agent.page is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((0, "connection refused"), "u does not answer: connection refused"),
        ((503, "{}"), "u answers 503"),
        ((200, "{}"), "u answers with something else than a status"),
        ((200, "[1]"), "u answers with something else than a status"),
    ],
)
def test_an_agent_without_words(answer: tuple[int, str], problem: str) -> None:
    assert read_page("u", lambda _url: answer).problem == problem
