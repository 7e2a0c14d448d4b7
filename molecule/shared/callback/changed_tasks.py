# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Writes which tasks changed which host in a run, so that a check-mode run can be compared with the real one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: changed_tasks
type: aggregate
short_description: Write the changed tasks of a run
description:
  - Writes a JSON file into the folder that CHANGED_TASKS_FOLDER names, C(check.json) or C(converge.json).
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "changed_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.began = time.monotonic()
        self.playbook = ""
        self.changed: list[str] = []
        self.tasks = 0

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self.playbook = Path(playbook._file_name).stem

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.tasks += 1

    def v2_runner_on_ok(self, result: Any) -> None:
        facts = result._result
        if facts.get("changed"):
            self.changed.append(f"{result._host.get_name()}: {result._task.get_name()}: {_details(facts)}")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        folder = os.environ.get("CHANGED_TASKS_FOLDER")
        if folder and self.playbook == "converge":
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = "check" if context.CLIARGS.get("check") else "converge"
            path = Path(folder, f"{name}.json")
            if path.exists():  # molecule's idempotence run is a second converge
                path = path.with_name(f"{name}-again.json")
            seconds = round(time.monotonic() - self.began, 1)
            path.write_text(json.dumps({"changed": self.changed, "tasks": self.tasks, "seconds": seconds}, indent=1))


def _details(facts: dict[str, Any]) -> str:
    """The resources that a result says it changed: the names, not the contents."""
    found = []
    for unit in facts.get("units") or ():
        if unit.get("steps"):
            found.append(f"{unit['name']}({','.join(unit['steps'])})")
    for source in facts.get("persistent_sources") or ():
        found.append(f"{source['where']}={source['done']}")
    for device in facts.get("active_before") or ():
        found.append(f"swapoff {device['name']}")
    for diff in facts.get("diff") or () if isinstance(facts.get("diff"), list) else ():
        found.append(str(diff.get("before_header", "")))
    found.extend(str(key) for key in facts.get("changed_keys") or ())
    return " ".join(found)
