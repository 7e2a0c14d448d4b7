# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agents' distribution fits together: one version, a lock for each target, nothing in them but plain pins."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import colocation
from ansible_collections.colocation.kubernetes.tests.run import agent_locks

AGENTS = Path(colocation.__file__).parent.parent
CHECKOUT = AGENTS.parent.parent
TARGETS = agent_locks.targets((AGENTS / "targets.yml").read_text())
MODULES = sorted(AGENTS.rglob("*.py"))
PIN = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]* --hash=sha256:[0-9a-f]{64}  # [A-Za-z0-9_.+-]+\.whl")


def test_there_is_one_version() -> None:
    declared = re.findall(r'^version = "(.*)"', (AGENTS / "pyproject.toml").read_text(), re.MULTILINE)
    galaxy = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["version"]
    assert [colocation.__version__] == declared == [galaxy]


def test_targets_are_read_as_a_yaml_library_reads_them() -> None:
    document = yaml.safe_load((AGENTS / "targets.yml").read_text())
    pairs = {(target.python, target.architecture): list(target.platforms) for target in TARGETS}
    assert pairs == {
        (python, name): tags for python in document["pythons"] for name, tags in document["platforms"].items()
    }


def test_each_target_has_a_lock_and_each_lock_a_target() -> None:
    assert {path.name for path in (AGENTS / "locks").iterdir()} == {target.lock for target in TARGETS}
    assert {target.python for target in TARGETS} == {"3.10", "3.11", "3.12", "3.13", "3.14"}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.lock)
def test_a_lock_has_pins_with_one_hash_and_nothing_else(target: agent_locks.Target) -> None:
    lines = (AGENTS / "locks" / target.lock).read_text().splitlines()
    assert lines == sorted(lines)
    for line in lines:
        assert PIN.fullmatch(line), line
        assert line.endswith((f"_{target.architecture}.whl", "-none-any.whl")), line


def test_all_locks_have_the_same_versions() -> None:
    """Not a must, but what differs between nodes should be seen and wanted."""
    pins = {tuple(line.split()[0] for line in (AGENTS / "locks" / t.lock).read_text().splitlines()) for t in TARGETS}
    assert len(pins) == 1


def test_agents_never_import_each_other_nor_common_an_agent() -> None:
    for module in MODULES:
        room = module.relative_to(AGENTS / "colocation").parts[0]
        for node in ast.walk(ast.parse(module.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            rooms = {name.split(".")[1] for name in names if name.startswith("colocation.")}
            assert rooms <= {"common", room}, module


def test_commands_that_only_ask_do_not_load_grpc() -> None:
    """`--check-config` and `status` run on a node in the middle of trouble; they should be quick."""
    code = "import sys, colocation.device_plugin.__main__; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(AGENTS)}, check=True)
