# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Commands for the cores: Ansible's `run_command`, with a missing program as an answer instead of the module's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

NOT_FOUND = 127


def runner(run_command: Callable[..., Any]) -> Run:
    """`run_command` as the cores call it."""

    def run(command: list[str]) -> tuple[int, str, str]:
        try:
            code, out, err = run_command(command, handle_exceptions=False)
        except OSError as problem:
            return NOT_FOUND, "", f"{command[0]}: {problem.strerror or problem}"
        return code, out, err

    return run
