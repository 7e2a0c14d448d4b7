# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kills this run of Ansible in the middle of a task, as an impatient person or a dead controller would."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kill_at
type: aggregate
short_description: Kill the run in the middle of a task
description:
  - KILL_AT_TASK is a part of the task's name, KILL_AFTER how many seconds after its start everything is killed.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        wanted = os.environ.get("KILL_AT_TASK")
        if wanted and wanted in task.get_name():
            delay = float(os.environ.get("KILL_AFTER", "1"))
            threading.Timer(delay, os.killpg, (os.getpgrp(), signal.SIGKILL)).start()
