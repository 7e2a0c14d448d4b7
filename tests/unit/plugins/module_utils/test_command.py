# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import NOT_FOUND, runner


def test_a_missing_program_is_an_answer() -> None:
    def run_command(command: list[str], handle_exceptions: bool) -> tuple[int, str, str]:
        assert not handle_exceptions
        if command[0] == "there":
            return 3, "out", "err"
        raise FileNotFoundError(2, "No such file or directory")

    run = runner(run_command)
    assert run(["there"]) == (3, "out", "err")
    assert run(["none"]) == (NOT_FOUND, "", "none: No such file or directory")
