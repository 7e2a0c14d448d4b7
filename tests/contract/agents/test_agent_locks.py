# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agents' locks against the package index: each holds all that its target needs, and runs where it can be tried."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ansible_collections.colocation.kubernetes.tests.contract.agents.interpreters import interpreter
from ansible_collections.colocation.kubernetes.tests.run import agent_locks
from ansible_collections.colocation.kubernetes.tests.run.agent_locks import Target, Wheel
from colocation import __file__ as package

AGENTS = Path(package).parent.parent
TARGETS = agent_locks.targets((AGENTS / "targets.yml").read_text())
PIP = (sys.executable, "-m", "pip")
NATIVE = [target for target in TARGETS if target.architecture == platform.machine()]
TRY = """
import grpc, yaml, google.protobuf.message_factory
from colocation.common import kube_api, service
from colocation.device_plugin import agent, protocol
print(len(protocol.encode_devices(agent.MockSource("mock.com/gpu", 10).devices(set()))))
"""


def markers(target: Target) -> Mapping[str, str]:
    """What environment markers see on a target."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": target.architecture,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{target.python}.0",
        "python_version": target.python,
        "sys_platform": "linux",
    }


def missing(wanted: list[str], wheels: Mapping[str, Wheel], target: Target) -> list[str]:
    """Requirements that hold on a target and that no wheel fulfils."""
    requirements = [Requirement(text) for text in wanted]
    held = [r for r in requirements if r.marker is None or r.marker.evaluate(dict(markers(target)))]

    def fulfilled(requirement: Requirement) -> bool:
        wheel = wheels.get(canonicalize_name(requirement.name))
        return wheel is not None and Version(wheel.version) in requirement.specifier

    return [str(requirement) for requirement in held if not fulfilled(requirement)]


def declared() -> list[str]:
    """What pyproject.toml wants."""
    text = (AGENTS / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("]")[0]
    return [line.strip().strip('",') for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.lock)
def test_a_lock_is_closed_and_its_wheels_are_those_that_pip_takes(target: Target, tmp_path: Path) -> None:
    lines = (AGENTS / "locks" / target.lock).read_text().splitlines()
    chosen = agent_locks.choose(PIP, target, lines, os.environ, tmp_path)  # pip refuses any other hash
    wheels = {wheel.name: wheel for wheel in chosen}
    wanted = declared() + [text for wheel in chosen for text in wheel.requires]
    assert missing(wanted, wheels, target) == []
    named = {canonicalize_name(Requirement(text).name) for text in wanted}
    assert set(wheels) <= named, "a package that nobody wants"


@pytest.mark.parametrize("target", NATIVE, ids=lambda target: target.python)
def test_a_tree_made_from_the_lock_runs(target: Target, tmp_path: Path) -> None:
    python = interpreter(target.python)
    if python is None:
        pytest.skip(f"there is no Python {target.python} here")
    lock = AGENTS / "locks" / target.lock
    tree = tmp_path / "tree"
    options = [*agent_locks.pip_options(target), "--no-compile", "--require-hashes", "--quiet", "--target", tree]
    subprocess.run([*PIP, "install", *options, "-r", lock], check=True)
    shutil.copytree(AGENTS / "colocation", tree / "colocation", ignore=shutil.ignore_patterns("__pycache__"))
    alone = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    isolated = [python, "-s", "-W", "error"]
    tried = subprocess.run([*isolated, "-c", TRY], env=alone, capture_output=True, text=True, check=False)
    assert (tried.stderr, tried.stdout) == ("", "270\n")
    config = tmp_path / "config.yaml"
    config.write_text("mock: {mock.com/gpu: 10}\n")
    check = [*isolated, "-m", "colocation.device_plugin", "--config", config, "--check-config"]
    assert subprocess.run(check, env=alone, capture_output=True, text=True, check=True).stdout == f"{config}: good\n"
