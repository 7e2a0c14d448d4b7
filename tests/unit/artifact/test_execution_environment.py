# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What ansible-builder is told: files that are there and can be read, with all that runs on the controller needs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _agent_pip

ROOT = Path(_agent_pip.__file__).parents[2]
ON_THE_CONTROLLER = ("action", "filter", "module_utils", "plugin_utils")
BY_ANSIBLE = {"ansible", "ansible_collections", "yaml"}  # ansible-core itself depends on PyYAML
BINDEP = re.compile(r"[a-z0-9-]+( \[(platform:[a-z]+ ?)+\])?")


def named(kind: str) -> list[str]:
    """The lines of a file that meta/execution-environment.yml names, without comments."""
    meta = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())
    file = Path(meta["dependencies"][kind])
    assert not file.is_absolute(), "ansible-builder wants it relative to the collection"
    lines = (ROOT / file).read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def test_pip_is_named_and_no_more() -> None:
    (pip,) = [Requirement(line) for line in named("python")]
    assert pip.name == "pip"
    assert not pip.specifier.contains("22.2"), "it is too old"


def test_system_packages_are_named_for_both_kinds_of_images() -> None:
    lines = named("system")
    assert all(BINDEP.fullmatch(line) for line in lines)
    for kind in ("rpm", "dpkg"):
        assert any(f"platform:{kind}" in line and line.startswith("openssh-client") for line in lines)


def test_nothing_else_is_imported_on_the_controller() -> None:
    imported = set()
    for directory in ON_THE_CONTROLLER:
        for file in (ROOT / "plugins" / directory).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add((node.module or "").split(".")[0])
                elif isinstance(node, ast.Import):
                    imported |= {name.name.split(".")[0] for name in node.names}
    assert "yaml" in imported
    assert imported - set(sys.stdlib_module_names) - BY_ANSIBLE == set()
