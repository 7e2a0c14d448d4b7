# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import colocation
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import (
    NoTarget,
    choose_target,
    parse_targets,
)
from ansible_collections.colocation.kubernetes.tests.run import agent_locks

TEXT = (Path(colocation.__file__).parent.parent / "targets.yml").read_text()
TARGETS = parse_targets(yaml.safe_load(TEXT))


def test_trees_are_made_with_the_options_that_locks_are_made_with() -> None:
    """Or pip would take other wheels than those whose hashes it is given."""
    theirs = {target.lock: agent_locks.pip_options(target) for target in agent_locks.targets(TEXT)}
    assert {target.lock: target.pip_options for target in TARGETS} == theirs


def test_a_node_gets_its_target() -> None:
    target = choose_target(TARGETS, "3.11", "aarch64")
    assert (target.name, target.lock) == ("python3.11-aarch64", "python3.11-aarch64.txt")
    assert target.glibc == (2, 34)


@pytest.mark.parametrize(("python", "architecture"), [("3.9", "x86_64"), ("3.13", "riscv64")])
def test_for_another_node_it_says_what_there_is(python: str, architecture: str) -> None:
    with pytest.raises(NoTarget) as caught:
        choose_target(TARGETS, python, architecture)
    assert str(caught.value) == (
        f"the agents have no lock for Python {python} on {architecture}; there are locks for Python 3.10, 3.11, 3.12, "
        "3.13, 3.14, each on x86_64, aarch64"
    )


@pytest.mark.parametrize(
    "document", [None, [], {}, {"pythons": ["3.10"]}, {"pythons": 3, "platforms": {}}, {"pythons": [], "platforms": 1}]
)
def test_another_document_is_no_list_of_targets(document: Any) -> None:
    with pytest.raises(ValueError, match="not a list of targets"):
        parse_targets(document)


def test_a_target_needs_platforms() -> None:
    with pytest.raises(ValueError, match="without platforms"):
        parse_targets({"pythons": ["3.10"], "platforms": {"x86_64": []}})
