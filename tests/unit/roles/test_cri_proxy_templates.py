# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the role cri_proxy writes: systemd judges the unit, a shell does what it says for the end, its command runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import PACKAGES
from ansible_collections.colocation.kubernetes.tests.unit.roles.systemd_judge import complaints, systemd_analyze
from colocation.cri_proxy import relay

ROLE = Path(__file__).parents[3] / "roles" / "cri_proxy"
UNIT = "cri-resource-manager.service"
MOST_EXPOSED = 4.0


def rendered(template: str, **variables: Any) -> str:
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    known = {**defaults, "agent_runtime_interpreter": sys.executable, **variables}
    text: str = Templar(DataLoader(), known).template(trust_as_template((ROLE / "templates" / template).read_text()))
    return text


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    path = tmp_path / UNIT
    path.write_text(rendered(f"{UNIT}.j2"))
    return path


def test_systemd_reads_the_unit_without_a_word(unit: Path) -> None:
    assert complaints(unit) == []


def test_the_unit_is_started_again_as_soon_after_the_hundredth_crash_as_after_the_first() -> None:
    said = re.findall(r"^Restart\w+=.*|^StartLimit\w+=.*", rendered(f"{UNIT}.j2"), re.MULTILINE)
    assert said == ["StartLimitIntervalSec=0", "RestartSec=1s"]


def test_the_unit_lets_calls_end_that_are_under_way() -> None:
    """A start takes an emulated node six seconds, and a container whose start is cut short may never be started."""
    limit = re.search(r"^TimeoutStopSec=(\d+)s$", rendered(f"{UNIT}.j2"), re.MULTILINE)
    assert limit is not None
    assert 10 <= relay.GRACE_SECONDS < int(limit[1]) - 5


def test_the_unit_is_hardened(unit: Path) -> None:
    done = systemd_analyze("security", "--offline=true", "--no-pager", str(unit))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd judges only units that it runs")
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level[1]) < MOST_EXPOSED


def test_the_folder_of_its_state_can_be_made_anew(unit: Path) -> None:
    assert "ReadWritePaths=/var/lib\n" in unit.read_text()


def test_it_may_have_files_for_more_connections_than_there_are_calls(unit: Path) -> None:
    assert re.search(r"^LimitNOFILE=\d{5}$", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("status", "release", "linked"),
    [
        ("78", True, True),
        ("203", True, True),
        ("1", False, True),
        ("0", True, False),
        ("1", True, False),
        ("KILL", True, False),
    ],
)
def test_where_it_can_not_start_at_all_its_socket_is_the_runtimes(
    status: str, release: bool, linked: bool, tmp_path: Path
) -> None:
    socket, runtime, home = tmp_path / "proxy.sock", tmp_path / "runtime.sock", tmp_path / "opt"
    if release:
        (home / "current/colocation").mkdir(parents=True)
    text = rendered(
        f"{UNIT}.j2", cri_proxy_socket=str(socket), cri_proxy_runtime=str(runtime), cri_proxy_home=str(home)
    )
    assert f"WorkingDirectory=-{home}/current\n" in text  # else systemd would not even begin what follows
    (said,) = re.findall(r"^ExecStopPost=-(.*)$", text.replace("\\\n", ""), re.MULTILINE)
    subprocess.run(shlex.split(said), env={"EXIT_STATUS": status, "PATH": "/usr/bin:/bin"}, check=False)
    assert socket.is_symlink() is linked
    assert not linked or str(socket.readlink()) == str(runtime)


def test_the_command_takes_paths_from_where_it_is_called(tmp_path: Path) -> None:
    home = tmp_path / "opt"
    home.mkdir()
    (home / "current").symlink_to(PACKAGES)
    command = tmp_path / "cri-resmgr"
    command.write_text(rendered("cri-resmgr.j2", cri_proxy_home=str(home)))
    (tmp_path / "own.cfg").write_text("policy: {Active: none}\n")
    done = subprocess.run(
        ["/bin/sh", str(command), "--config", "own.cfg", "--check-config"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("own.cfg: good\n", "", 0)
