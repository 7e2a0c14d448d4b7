# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import (
    NOT_FOUND,
    TIMED_OUT,
    run_for,
    runner,
)


def test_a_missing_program_is_an_answer() -> None:
    def run_command(command: list[str], handle_exceptions: bool) -> tuple[int, str, str]:
        assert not handle_exceptions
        if command[0] == "there":
            return 3, "out", "err"
        raise FileNotFoundError(2, "No such file or directory")

    run = runner(run_command)
    assert run(["there"]) == (3, "out", "err")
    assert run(["none"]) == (NOT_FOUND, "", "none: No such file or directory")


def test_a_command_has_a_limit() -> None:
    assert run_for(["/bin/sleep", "9"], 0.2) == (TIMED_OUT, "", "/bin/sleep gave no answer within 0.2 s")


def test_a_missing_program_is_an_answer_with_a_limit_too() -> None:
    assert run_for(["/nowhere/command"], 9) == (NOT_FOUND, "", "/nowhere/command: No such file or directory")


def test_output_code_and_language_of_a_command() -> None:
    said = run_for(["/bin/sh", "-c", "echo $LC_ALL; echo nö >&2; exit 3"], 9)
    assert said == (3, "C.UTF-8\n", "nö\n")
