# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_package on a double of dpkg and apt-get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.modules import node_package
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


class Apt:
    """`status` is dpkg's word for the package; installing it fails as long as it is `stuck`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.status = ""
        self.stuck = False
        self.installs = 0

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "dpkg-query":
            return (0, self.status, "") if self.status else (1, "", "no packages found")
        if "--configure" in command and self.status == "half-configured" and not self.stuck:
            self.status = "installed"
        if "install" in command:
            self.installs += 1
            self.status = "half-configured" if self.stuck else "installed"
            return (100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)") if self.stuck else (0, "", "")
        return 0, "", ""

    def run(self, check_mode: bool = False) -> dict[str, Any]:
        return call(node_package.main, check_mode, name="containerd", program="sh", state_dir=str(self.state))

    def noted(self) -> list[str]:
        return [entry.name for entry in Ledger(str(self.state)).entries()]


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    made = Apt(tmp_path / "state")
    monkeypatch.setattr(node_package, "runner", lambda _run: made)
    return made


@pytest.mark.parametrize("status", ["", "installed"])
def test_where_the_program_is_nothing_is_installed(apt: Apt, status: str) -> None:
    apt.status = status
    answer = apt.run()
    assert (answer["changed"], answer["installed"], apt.status, apt.noted()) == (False, True, status, [])


def test_a_package_that_stands_half_way_is_not_taken_for_installed(apt: Apt) -> None:
    """Its program is there, so a second run would find nothing to do."""
    apt.status, apt.stuck = "half-configured", True
    assert apt.run(check_mode=True)["changed"]
    assert "could not install containerd" in apt.run()["msg"]
    apt.stuck = False
    answer = apt.run()
    assert (answer["changed"], answer["installed"], apt.status) == (True, False, "installed")
    assert answer["diff"]["before"] == "containerd: unfinished\n"
    assert apt.noted() == []  # whoever began with it
    assert apt.installs == 2  # both of the run that failed: of the version that stands there nothing newer was made
    assert not apt.run()["changed"]
