# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""README names each playbook and role once; every variable of a playbook is told somewhere, none of a role twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

COLLECTION = Path(__file__).parents[3]
README = COLLECTION / "README.md"
ROLES = sorted(path.parent.parent for path in COLLECTION.glob("roles/*/meta/argument_specs.yml"))
TELL = [README, *COLLECTION.glob("docs/*.md"), *COLLECTION.glob("roles/*/README.md")]


def options(role: Path) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    found: dict[str, Any] = spec.get("options") or {}
    return found


def test_each_playbook_and_each_role_has_one_row() -> None:
    text = README.read_text()
    playbooks = {file.stem for file in COLLECTION.glob("playbooks/*.yml")}
    assert sorted(re.findall(r"^\| `colocation\.kubernetes\.(\w+)` \|", text, re.MULTILINE)) == sorted(playbooks)
    roles = re.findall(r"^\| \[?`(\w+)`(?:\]\(roles/\w+/README\.md\))? \|", text, re.MULTILINE)
    assert [name for name in roles if roles.count(name) > 1] == []
    assert {role.name for role in ROLES} <= set(roles)


def test_every_variable_that_a_playbook_takes_is_told() -> None:
    files = [*COLLECTION.glob("playbooks/**/*.yml"), *COLLECTION.glob("roles/*/tasks/*.yml")]
    set_by_us = set(re.findall(r"^\s+(?:register: )?(\w+)(?=:|$)", "".join(f.read_text() for f in files), re.MULTILINE))
    of_plays = "".join(file.read_text() for file in COLLECTION.glob("playbooks/**/*.yml"))
    asked = set(re.findall(r"\b([a-z]+_\w+) \| default\(", of_plays))
    taken = asked - set_by_us - {name for role in ROLES for name in options(role)}
    assert len(taken) > 8
    code = " ".join(
        match for page in TELL for match in re.findall(r"`[^`\n]+`|^ansible.*$", page.read_text(), re.MULTILINE)
    )
    assert {name for name in taken if not re.search(rf"\b{name}\b", code)} == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_roles_readme_has_no_second_table_of_its_options(role: Path) -> None:
    """They stand in docs/roles, made from the argument spec."""
    rows = re.findall(r"^\| `(\w+)`", (role / "README.md").read_text(), re.MULTILINE)
    assert [name for name in rows if name in options(role)] == []
