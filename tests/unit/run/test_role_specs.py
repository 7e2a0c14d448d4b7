# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Defaults and argument specifications of a role say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import role_specs

SPEC = """
argument_specs:
  main:
    options:
      swap: {type: str, default: disable}
      node: {type: str, required: true}
"""


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """A role whose defaults and specification agree."""
    made = tmp_path / "roles" / "prep"
    for directory in ("meta", "defaults"):
        (made / directory).mkdir(parents=True)
    (made / "meta" / "argument_specs.yml").write_text(SPEC)
    (made / "defaults" / "main.yml").write_text("swap: disable\n_internal: 1\n")
    return made


def test_a_role_that_agrees(role: Path) -> None:
    assert role_specs.problems(role) == []
    assert role_specs.main([str(role.parent)]) == 0


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ("swap: disable\nextra: 1\n", "extra has a default in"),
        ("{}\n", "swap is optional in"),
        ("swap: disable\nnode: a\n", "node is required, yet"),
        ("swap: keep\n", "swap has the default 'disable', not 'keep'"),
    ],
)
def test_a_role_that_does_not(defaults: str, said: str, role: Path) -> None:
    (role / "defaults" / "main.yml").write_text(defaults)
    (problem,) = role_specs.problems(role)
    assert said in problem
    assert role_specs.main([str(role.parent)]) == 1


def test_a_role_without_a_specification(role: Path) -> None:
    (role / "meta" / "argument_specs.yml").unlink()
    assert role_specs.problems(role) == [f"{role}/meta/argument_specs.yml is missing"]
