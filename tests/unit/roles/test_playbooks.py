# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What all plays have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[3] / "playbooks"
PLAYBOOKS = sorted(FOLDER.glob("*.yml"))


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_plays_that_work_on_hosts_send_modules_in_one_go(playbook: Path) -> None:
    plays: list[dict[str, Any]] = [play for play in yaml.safe_load(playbook.read_text()) if play.get("become")]
    assert [play["name"] for play in plays if "ansible_pipelining" not in play.get("vars", {})] == []


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_no_play_gathers_facts_that_nobody_reads(playbook: Path) -> None:
    plays: list[dict[str, Any]] = [play for play in yaml.safe_load(playbook.read_text()) if "hosts" in play]
    assert [play["name"] for play in plays if play.get("gather_facts") is not False] == []


def test_an_uninstall_notes_nothing_when_it_restarts_units() -> None:
    """The ledger was just emptied; a unit that was down would leave an entry of its own."""
    plays: list[dict[str, Any]] = yaml.safe_load((FOLDER / "uninstall.yml").read_text())
    module = "colocation.kubernetes.node_unit"
    restarts = [task[module] for play in plays for task in play.get("tasks", []) if module in task]
    assert restarts and all(restart.get("remember") is False for restart in restarts)
