# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A copy of the collection whose modules are doubles, and hosts that are this machine, each with a file as its state.

So the playbooks, roles and filters are the real ones, and what a module would do to a node is in that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import ROOT
from ansible_collections.colocation.kubernetes.tests.ports import free_port

INSIDE = Path("ansible_collections/colocation/kubernetes")
LINKED = (
    "plugins/filter",
    "plugins/module_utils",
    "plugins/plugin_utils",
    "plugins/doc_fragments",
    "playbooks",
    "meta",
    "galaxy.yml",
)


def made_collection(place: Path, roles: Iterable[str], made: Mapping[str, str]) -> None:
    """The collection under `place`: the real playbooks, filters and `roles`, and what is made, by its path."""
    collection = place / INSIDE
    (collection / "plugins").mkdir(parents=True)
    (collection / "roles").mkdir()
    for part in (*LINKED, *(f"roles/{role}" for role in roles)):
        (collection / part).symlink_to(ROOT / part)
    for path, text in made.items():
        (collection / path).parent.mkdir(parents=True, exist_ok=True)
        (collection / path).write_text(text)


def doubled_collection(
    place: Path, double: Path, modules: Iterable[str], roles: Iterable[str], made: Mapping[str, str]
) -> None:
    """One in which `double` is every module."""
    text = f"#!/usr/bin/python\n{double.read_text()}"
    made_collection(place, roles, {**made, **{f"plugins/modules/{name}.py": text for name in modules}})


def file_host(place: Path, name: str, variable: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a host whose state is `<name>.json`, which its modules find by the environment's `variable`."""
    path = place / f"{name}.json"
    path.write_text(json.dumps(state))
    python = place / f"python-{name}"
    python.write_text(f'#!/bin/sh\n{variable}={path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {"ansible_connection": "local", "ansible_python_interpreter": str(python)}


def dead_host() -> dict[str, Any]:
    """The variables of a host that does not answer."""
    return {"ansible_host": "127.0.0.1", "ansible_port": free_port(), "ansible_connection": "ssh"}
