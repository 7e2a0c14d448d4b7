# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Taking out what may never have been put in: cheap and silent, but never silent about what was not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.role_play import RolePlay
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import admin_file

ROLES = ("scheduler", "monitoring")
UNSEEN = "was not looked at"
AWAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.add_host: {name: 192.0.2.1, ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
"""


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def play(place: Path, role: str, **said: object) -> RolePlay:
    return RolePlay(place, role, {"monitoring_state_dir": str(place / "state"), **said})


@pytest.mark.parametrize("mode", [[], ["--check"]])
def test_nothing_is_there(api_server: ApiServer, tmp_path: Path, role: str, mode: list[str]) -> None:
    here = play(tmp_path, role, **{f"{role}_controller_kubeconfig": str(admin_file(api_server))})
    status, changed, said = here(*mode, entry="uninstall")
    assert (status, changed) == (0, 0), said
    assert UNSEEN not in said


@pytest.mark.parametrize("mode", [[], ["--check"]])
def test_nobody_may_look(tmp_path: Path, role: str, mode: list[str]) -> None:
    missing = str(tmp_path / "admin.conf")
    status, changed, said = play(tmp_path, role, **{f"{role}_controller_kubeconfig": missing})(*mode, entry="uninstall")
    assert (status, changed) == (0, 0), said
    assert UNSEEN in said
    assert f"localhost has no {missing}" in said
    status, changed, said = play(tmp_path, role)(*mode, entry="uninstall")
    assert (status, changed) == (0, 0), said
    assert "the inventory has no host in the group kube_control_plane" in said


def test_a_host_that_is_away(tmp_path: Path) -> None:
    here = play(tmp_path, "scheduler", scheduler_admin_host="192.0.2.1")
    (here.place / "play.yml").write_text(AWAY + (here.place / "play.yml").read_text())
    status, changed, said = here(entry="uninstall")
    assert status == 0, said
    assert "192.0.2.1 can not be reached" in said


def test_what_was_asked_for_must_go(tmp_path: Path) -> None:
    missing = str(tmp_path / "admin.conf")
    here = play(tmp_path, "scheduler", scheduler_controller_kubeconfig=missing, scheduler_enabled=True)
    status, dummy, said = here(entry="uninstall")
    assert status != 0
    assert UNSEEN in said
