# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is kept of earlier runs."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.run.places import LOGS_KEPT, Places


def test_the_last_runs_logs_stay_and_those_of_a_run_that_goes_on(tmp_path: Path) -> None:
    ended = [f"20261119-0000{number:02}-999999999" for number in range(20)]
    running = f"20261118-000000-{os.getpid()}"
    for name in (*ended, running):
        (tmp_path / "logs" / name).mkdir(parents=True)
    made = Places(tmp_path, tmp_path).make_logs()
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {*ended[-LOGS_KEPT + 1 :], running, made.name}
