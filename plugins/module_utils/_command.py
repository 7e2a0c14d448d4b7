# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Commands for the cores: that a program is missing or does not end is an answer, never the module's end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

NOT_FOUND = 127
TIMED_OUT = 124
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def runner(run_command: Callable[..., Any]) -> Run:
    """`run_command` as the cores call it."""

    def run(command: list[str]) -> tuple[int, str, str]:
        try:
            code, out, err = run_command(command, handle_exceptions=False)
        except OSError as problem:
            return NOT_FOUND, "", f"{command[0]}: {problem.strerror or problem}"
        return code, out, err

    return run


def run_for(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Run a command that is killed when its time is over, which `run_command` can't do."""
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # see above
            command,
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=ENVIRONMENT,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, "", f"{command[0]} gave no answer within {seconds:g} s"
    except OSError as problem:
        return NOT_FOUND, "", f"{command[0]}: {problem.strerror or problem}"
    return done.returncode, done.stdout, done.stderr
