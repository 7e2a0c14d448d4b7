# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Every playbook is told of, and every variable that one takes beside those of the roles."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

COLLECTION = Path(__file__).parents[3]
PLAYBOOKS = sorted(COLLECTION.glob("playbooks/*.yml"))
PAGES = [COLLECTION / "docs" / name for name in ("playbooks.md", "health.md")]


def told() -> str:
    return "".join(page.read_text() for page in PAGES)


def test_every_playbook_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGES[0].read_text().split("## ")[0], re.MULTILINE)
    assert set(rows) == {file.stem for file in PLAYBOOKS}


def test_every_variable_that_a_user_may_set_is_explained() -> None:
    files = [*COLLECTION.glob("playbooks/**/*.yml"), *COLLECTION.glob("roles/*/tasks/*.yml")]
    text = "".join(file.read_text() for file in files)
    of_plays = "".join(file.read_text() for file in COLLECTION.glob("playbooks/**/*.yml"))
    asked = set(re.findall(r"\b([a-z]+_\w+) \| default\(", of_plays))
    set_by_us = set(re.findall(r"^\s+(?:register: )?(\w+)(?=:|$)", text, re.MULTILINE))
    specs = COLLECTION.glob("roles/*/meta/argument_specs.yml")
    of_roles = {
        name for file in specs for name in yaml.safe_load(file.read_text())["argument_specs"]["main"].get("options", {})
    }
    taken = asked - set_by_us - of_roles
    assert len(taken) > 8
    assert {name for name in taken if f"`{name}`" not in told()} == set()
