# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Our agents on a node, found by what their units run, and whether their release suits the Python that it runs under.

An upgrade of the distribution changes the Python minor under a release. The agents then go over to an interpreter of
the old minor if one was kept, and else end with a line that says so; either way the next run of the playbook mends it.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_layout import current_release, read_release
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_page import (
    AskPage,
    ask_page,
    page_url,
    read_page,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import Agent, Page, Service
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_unit import read_service
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import ADMIN_DIRECTORY, Run

START = "colocation.start"
HOME = "/opt/colocation"
KEPT_IN = ("/usr/bin", "/usr/local/bin")  # as files/agents/colocation/start.py has it


def read_agents(root: str, run: Run, ask: AskPage = ask_page) -> tuple[Agent, ...]:
    """Every unit of the administrator's that starts one of our agents."""
    return tuple(_agents(root, run, ask))


def _agents(root: str, run: Run, ask: AskPage) -> Iterator[Agent]:
    for place in sorted(glob.glob(under(root, os.path.join(ADMIN_DIRECTORY, "*.service")))):
        name = os.path.basename(place)
        text = read_text(root, f"/{ADMIN_DIRECTORY}/{name}")
        command, directory = parse_unit(text)
        if command:
            yield _agent(root, run, name, command, directory, ask)


def parse_unit(text: str) -> tuple[list[str], str]:
    """The command line of a unit that starts an agent, and its home; an empty one for all other units."""
    values = dict(re.findall(r"^(ExecStart|WorkingDirectory)=(.*)$", text, re.MULTILINE))
    try:
        command = shlex.split(values.get("ExecStart", "").lstrip("-@:+!"))
    except ValueError:
        return [], ""
    home = os.path.dirname(values.get("WorkingDirectory", "").strip().lstrip("-")) or HOME
    return (command, home) if START in command else ([], "")


def _agent(root: str, run: Run, name: str, command: list[str], home: str, ask: AskPage) -> Agent:
    place, interpreter = under(root, home), command[0]
    release = current_release(place)
    found = read_release(place, release) if release else None
    made_for = found.python if found else ""
    python = ask_minor(run, interpreter)
    kept = ""
    if made_for and made_for != python:
        paths = (os.path.join(directory, f"python{made_for}") for directory in KEPT_IN)
        kept = next((path for path in paths if os.access(under(root, path), os.X_OK)), "")
    service = read_service(root, run, name)
    return Agent(service, release, made_for, interpreter, python, kept, _page(root, service, command, ask))


def _page(root: str, service: Service, command: list[str], ask: AskPage) -> Page | None:
    """The agent's own words, if it is up; nobody else is asked on its port."""
    if service.unit is None or service.unit.active != "active" or "--config" not in command[:-1]:
        return None
    url = page_url(read_text(root, command[command.index("--config") + 1]))
    return read_page(url, ask) if url else None


def ask_minor(run: Run, interpreter: str) -> str:
    """The minor version of a Python, such as 3.13; empty where it can't be run."""
    code, out, err = run([interpreter, "-V"])
    said = re.match(r"Python (\d+\.\d+)\.", out or err) if code == 0 else None
    return said[1] if said else ""
