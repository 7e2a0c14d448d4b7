# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import Limits, Walk
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.plugins.modules import agent_service
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.agent_node import UNIT, AgentNode
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

OLD, NEW = "1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb"


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentNode:
    double = AgentNode(tmp_path / "root")
    double.bring(OLD)
    double.bring(NEW)
    systemd = Systemd(double, str(double.root), clock=double.clock, sleep=double.sleep)
    monkeypatch.setattr(agent_service, "Systemd", lambda run: systemd)
    monkeypatch.setattr(agent_service, "ask_health", double.ask)
    monkeypatch.setattr(agent_service, "PROC", str(double.root / "proc"))
    return double


def _run(double: AgentNode, release: str = OLD, check_mode: bool = False, **params: Any) -> dict[str, Any]:
    wanted = {
        "name": "device_plugin",
        "unit": UNIT,
        "unit_content": "[Service]\n",
        "config": str(double.config),
        "config_content": "devices: 10\n",
        "release": release,
        "check_command": ["python3", "{config}"],
        "health_url": "http://127.0.0.1:9461/healthz",
        "timeout": 10,
        "settle": 2,
        "home": str(double.home),
        "state_dir": str(double.state_dir),
    }
    return call(agent_service.main, check_mode, **{**wanted, **params})


def _remove(double: AgentNode, check_mode: bool = False) -> dict[str, Any]:
    return call(
        agent_service.main, check_mode, name="device_plugin", unit=UNIT, state="absent", state_dir=str(double.state_dir)
    )


def test_check_mode_and_the_run_say_the_same(double: AgentNode) -> None:
    told = _run(double, check_mode=True)
    assert told["changed"]
    assert not double.config.exists()
    assert not double.state_dir.exists()
    assert _run(double) == told
    again = _run(double)
    assert (again["changed"], again["restarted"], again.get("diff")) == (False, False, None)
    told = _run(double, NEW, check_mode=True)
    assert _run(double, NEW) == told
    assert (told["release_before"], told["release_after"], told["reasons"]) == (OLD, NEW, ["its code changes"])


def test_a_failed_switch_fails_the_task_and_says_what_was_done(double: AgentNode) -> None:
    _run(double)
    double.mute.add(NEW)
    answer = _run(double, NEW)
    assert answer["failed"]
    assert answer["rolled_back"]
    assert f"taken back to release {OLD}" in answer["msg"]
    assert f"last words of {UNIT}" in answer["msg"]
    assert not _run(double)["changed"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"config_mode": "9"}, "config_mode: '9' is not an octal mode"),
        ({"release": "../x"}, "release: '../x' is not the id of a release"),
        ({"release": "9-x"}, "bring it to the node first"),
        ({"config_content": "bad"}, "devices is wrong"),
    ],
)
def test_errors_say_what_is_wrong_and_change_nothing(params: dict[str, Any], words: str, double: AgentNode) -> None:
    answer = _run(double, **params)
    assert answer["failed"]
    assert words in answer["msg"]
    assert not double.config.exists()


def test_it_goes_and_check_mode_tells(double: AgentNode) -> None:
    _run(double)
    told = _remove(double, check_mode=True)
    assert double.process is not None
    assert _remove(double) == told
    assert f"unit {UNIT}" in told["removed"]
    assert f"file {double.config}" in told["removed"]
    assert not double.state_dir.exists()
    assert not _remove(double)["changed"]
    assert not double.state_dir.exists()


def test_resources_are_remembered_until_all_is_restored(double: AgentNode) -> None:
    _run(double, resources=["mock.com/gpu"])
    assert _run(double, resources=["mock.com/other"])["resources"] == ["mock.com/gpu", "mock.com/other"]
    assert _remove(double, check_mode=True)["resources"] == ["mock.com/gpu", "mock.com/other"]
    removed = _remove(double)
    assert removed["resources"] == ["mock.com/gpu", "mock.com/other"]
    assert removed["kept"] == []
    assert _remove(double)["resources"] == removed["resources"]
    walk = Walk(Ledger(str(double.state_dir)), double, Limits(), str(double.root))
    assert walk.go().problems == []
    assert not double.state_dir.exists()


def test_check_mode_knows_the_code_of_a_release_that_is_not_there_yet(double: AgentNode) -> None:
    _run(double)
    for code, restarted in ((f"code of {OLD}", False), ("other", True), ("", True)):
        told = _run(double, "9-dddddddddddd", check_mode=True, code_sha256=code)
        assert (told["changed"], told["restarted"]) == (True, restarted)


def test_what_somebody_edited_is_left_with_a_warning(double: AgentNode) -> None:
    _run(double)
    double.config.write_text("mine\n")
    answer = _remove(double)
    assert str(double.config) in answer["kept"][0]
    assert str(double.config) in answer["warnings"][0]
