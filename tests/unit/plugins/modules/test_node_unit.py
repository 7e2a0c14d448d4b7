# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.plugins.modules import node_unit
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import FakeSystemd
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    double = FakeSystemd(tmp_path / "root")
    systemd = Systemd(double, str(double.root), clock=double.clock, sleep=double.sleep)
    monkeypatch.setattr(node_unit, "Systemd", lambda run: systemd)
    return double


def _run(double: FakeSystemd, *names: str, check_mode: bool = False, **params: Any) -> dict[str, Any]:
    return call(node_unit.main, check_mode, name=list(names), state_dir=str(double.root / "state"), **params)


def test_check_mode_and_the_run_say_the_same_for_a_list(double: FakeSystemd) -> None:
    double.install("a.service")
    double.install("b.timer", active="active", enablement="enabled")
    told = _run(double, "a", "b.timer", check_mode=True, state="started", enabled=True)
    assert double.changes() == []
    done = _run(double, "a", "b.timer", state="started", enabled=True)
    assert told == done
    assert [unit["steps"] for unit in done["units"]] == [["enable", "start"], []]
    assert [diff["before_header"] for diff in done["diff"]] == ["a.service"]
    assert not _run(double, "a", "b.timer", state="started", enabled=True)["changed"]


def test_a_unit_that_is_not_installed_yet(double: FakeSystemd) -> None:
    wish: dict[str, Any] = {"state": "started", "enabled": True, "masked": False}
    assert "not installed" in _run(double, "a", check_mode=True, **wish)["msg"]
    assert _run(double, "a", check_mode=True, assume_installed=True, **wish)["changed"]
    assert _run(double, "a", assume_installed=True, **wish)["failed"]


def test_a_full_disk_is_told_with_a_path(double: FakeSystemd, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(node_unit, "bring", full)
    double.install("a.service")
    assert _run(double, "a", state="started")["msg"] == f"{double.root}/state: No space left on device"


def test_a_failure_has_the_journal(double: FakeSystemd) -> None:
    double.install("a.service", comes_up=False)
    answer = _run(double, "a", state="started")
    assert answer["failed"]
    assert "last words of a.service" in answer["msg"]


def test_a_static_unit_is_left_with_a_warning(double: FakeSystemd) -> None:
    double.install("a.service", enablement="static")
    answer = _run(double, "a", enabled=True)
    assert not answer["changed"]
    assert "a.service is static, so it can't be enabled" in answer["warnings"][0]
    assert _run(double, "a", enabled=False)["warnings"] == []


def test_daemon_reload_is_no_change_and_not_done_in_check_mode(double: FakeSystemd) -> None:
    double.install("a.service", active="active")
    assert not _run(double, "a", state="started", daemon_reload=True)["changed"]
    assert double.changes() == ["daemon-reload"]
    _run(double, "a", check_mode=True, state="started", daemon_reload=True)
    assert double.changes() == ["daemon-reload"]
