# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Switches of the real device plugin between real releases, under doubles of systemd and of the kubelet."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_absent import take_away
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_gate import ask_health
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_service import (
    Agent,
    AgentError,
    Node,
    Outcome,
    SwitchFailed,
    bring_up,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import PACKAGES
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.systemd_double import SystemdDouble
from ansible_collections.colocation.kubernetes.tests.ports import free_port

UNIT = "colocation-device-plugin.service"
OLD, NEW, SAME, MUTE, CRASHING = (f"0.{n}.0-{n:012x}" for n in range(1, 6))
MUTED = ("__version__, summary, tuple(problems),", '__version__, summary, ("ill on purpose",),')
ENDING = ("Config) -> None:\n", 'Config) -> None:\n        raise RuntimeError("ends on purpose")\n')


class Site:
    """A node in a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / "opt"
        self.port = free_port()
        self.systemctl = SystemdDouble(place, UNIT)
        self.bring(OLD)
        (self.home / "current").symlink_to(f"releases/{OLD}")

    def bring(self, release: str, change: tuple[str, str] = ("", ""), code: str = "") -> None:
        made = self.home / "releases" / release
        shutil.copytree(PACKAGES / "colocation", made / "colocation")
        agent = made / "colocation/device_plugin/agent.py"
        text = agent.read_text()
        assert change[0] in text
        agent.write_text(text.replace(*change, 1) if change[0] else text)
        record = Release(release, "0.1.0", "3.13", "x86_64", "", {"device_plugin": code or release}, 0, 0)
        (made / "RELEASE.json").write_text(json.dumps(record.to_json()))

    def agent(self, release: str, devices: object = 10) -> Agent:
        command = [sys.executable, "-EsB", "-m", "colocation.device_plugin", "--config"]
        config = str(self.place / "etc/colocation/device-plugin.yaml")
        unit = (
            f"[Service]\nType=notify\nWorkingDirectory={self.home}/current\nExecStart={' '.join([*command, config])}\n"
        )
        values = {
            "kubelet_dir": f"{self.place}/k",
            "retry_seconds": 0.2,
            "status": {"port": self.port},
            "mock": {"mock.com/gpu": devices},
        }
        health = f"http://127.0.0.1:{self.port}/healthz"
        content = json.dumps(values).encode()
        check = (*command, "{config}", "--check-config")
        return Agent(
            "device_plugin", UNIT, unit.encode(), config, content, 0o600, release, check, health, timeout=8, settle=1
        )

    def node(self) -> Node:
        systemd = Systemd(self.systemctl, str(self.place))
        state = str(self.place / "state")
        ledger, store = Ledger(state, "device_plugin"), RecordStore(state, "device_plugin")

        def away() -> list[str]:
            sockets = [f"{self.place}/k/*.sock"]
            return take_away(UNIT, systemd, ledger, store, sockets, 10).report.problems

        return Node(systemd, ledger, store, str(self.home), ask_health, take_away=away)

    def run(self, agent: Agent) -> Outcome:
        scratch = self.place / "scratch"
        scratch.mkdir(exist_ok=True)
        return bring_up(agent, self.node(), str(scratch))

    def runs(self) -> str:
        process = self.systemctl.process
        return os.path.basename(os.readlink(f"/proc/{process.pid}/cwd")) if process else ""


@pytest.fixture
def site(place: Path) -> Iterator[Site]:
    made = Site(place)
    yield made
    made.systemctl.close()


def _devices(kubelet: KubeletDouble) -> int:
    return sum(len(plugin.lists[-1]) for plugin in kubelet.watched("mock.com/gpu"))


def test_install_upgrade_and_removal(site: Site, kubelet: KubeletDouble, place: Path) -> None:
    first = site.run(site.agent(OLD))
    assert (first.changed, first.restarted, site.runs(), _devices(kubelet)) == (True, True, OLD, 10)
    assert not site.run(site.agent(OLD)).changed

    site.bring(NEW)
    upgrade = site.run(site.agent(NEW, 5))
    assert (site.runs(), _devices(kubelet)) == (NEW, 5)
    assert upgrade.reasons == ("its code changes", "its configuration changes")
    assert 0 < upgrade.downtime < 10

    site.bring(SAME, code=NEW)
    process = site.systemctl.process
    same = site.run(site.agent(SAME, 5))
    assert (same.changed, same.restarted, site.runs()) == (True, False, NEW)
    assert site.systemctl.process is process
    assert (site.home / "current").readlink().name == SAME

    assert site.node().take_away() == []
    assert (site.systemctl.process, site.systemctl.enabled, site.systemctl.file.exists()) == (None, False, False)
    assert sorted(path.name for path in (place / "k").iterdir()) == ["kubelet.sock"]
    assert not (place / "etc/colocation").exists()
    assert not (place / "state").exists()


@pytest.mark.parametrize(
    ("release", "change", "words"),
    [
        (MUTE, MUTED, "8 s were not enough: /healthz answers 503: ill on purpose"),
        (CRASHING, ENDING, "its process ended 3 times"),
    ],
)
def test_an_ill_release_is_taken_back(
    release: str, change: tuple[str, str], words: str, site: Site, kubelet: KubeletDouble
) -> None:
    site.run(site.agent(OLD))
    site.bring(release, change)
    with pytest.raises(SwitchFailed) as failure:
        site.run(site.agent(release, 5))
    assert failure.value.rolled_back
    assert words in str(failure.value)
    assert "Its journal before" in str(failure.value)
    assert ("RuntimeError: ends on purpose" in str(failure.value)) == (release == CRASHING)
    assert (site.runs(), _devices(kubelet)) == (OLD, 10)
    assert not site.run(site.agent(OLD)).changed


def test_the_new_release_refuses_a_bad_configuration_before_anything_changes(
    site: Site, kubelet: KubeletDouble
) -> None:
    site.run(site.agent(OLD))
    site.bring(NEW)
    process = site.systemctl.process
    with pytest.raises(AgentError, match="nothing was changed") as error:
        site.run(site.agent(NEW, "ten"))
    assert f"{site.place}/etc/colocation/device-plugin.yaml" in str(error.value)
    assert "mock.com/gpu" in str(error.value)
    assert (site.systemctl.process, site.runs(), _devices(kubelet)) == (process, OLD, 10)
