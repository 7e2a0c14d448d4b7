# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agent around relay and policy: what it starts with, and what it keeps. No runtime answers here; a whole agent is
tested in contract/agents/test_cri_placement.py."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.containers import pod, resources, said
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, write
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.relay_site import dialled, listening, until
from colocation.common.metrics import Registry
from colocation.cri_proxy import state
from colocation.cri_proxy.agent import CriProxyAgent
from colocation.cri_proxy.bookkeeping import Freed
from colocation.cri_proxy.config import PIPE, Config, Policy
from colocation.cri_proxy.ledger import Entry, Who
from colocation.cri_proxy.placement import Shape

OFF = Policy(Active="none")


class Site:
    """An agent with its folders."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.agent = CriProxyAgent(Registry())
        self.config = self.with_places(Config())

    def with_places(self, config: Config) -> Config:
        return replace(
            config,
            listen=f"{self.place}/proxy.sock",
            runtime=f"{self.place}/runtime.sock",
            state_dir=f"{self.place}/state",
            cgroup_dir=f"{self.place}/cgroup",
            kubelet_dir=f"{self.place}/kubelet",
            sysfs_root=str(self.place),
        )

    def remember(self) -> str:
        """A record of one container."""
        entry = Entry(Who("s", "u", "shop", "web", "main"), 1000, Shape.CCX, (0,))
        content = state.encode(
            [("c1", entry, said(resources(1), pod()))], {"c2": Freed("shop/old/main", mems=False)}, []
        )
        state.save(self.config.state_dir, content)
        return content

    @property
    def file(self) -> Path:
        return self.place / "state" / state.NAME

    def freed(self) -> set[str]:
        return set(self.agent._policy.to_free())


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="cri-", dir="/tmp") as directory:
        made = Site(write(MACHINES["hygon-c86"], Path(directory)))
        try:
            yield made
        finally:
            made.agent.stop()


def test_it_serves_whatever_is_wrong_with_the_state(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "load", lambda _folder: 1 / 0)
    site.agent.configure(site.config)
    with listening(site.config.runtime), dialled(site.config.listen):
        until("it is passed on", lambda: dict(site.agent.status().facts)["connections"])
    assert site.agent.status().healthy


def test_one_that_never_began_ends_too() -> None:
    CriProxyAgent(Registry()).stop()


@pytest.mark.parametrize(("policy", "freed"), [(Policy(), {"c2"}), (OFF, {"c1", "c2"})], ids=["placing", "off"])
def test_a_configuration_that_was_rejected_frees_and_forgets_nobody(
    policy: Policy, freed: set[str], site: Site
) -> None:
    content = site.remember()
    site.agent.configure(site.with_places(PIPE))
    site.agent._save()
    assert site.freed() == set() and site.file.read_text() == content
    site.agent.configure(replace(site.config, policy=policy))
    assert site.freed() == freed
    site.agent._save()
    assert site.file.read_text() != content


def test_a_state_that_was_deleted_is_written_again(site: Site) -> None:
    site.agent.configure(site.config)
    site.agent._save()
    shutil.rmtree(site.config.state_dir)
    site.agent._save()
    assert site.file.exists() and site.agent.status().healthy


def test_connections_from_when_nothing_was_placed_are_a_problem(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = site.agent
    monkeypatch.setattr(agent, "_round", lambda _whole, _alive: None)
    agent.configure(site.config)
    agent.configure(replace(site.config, policy=OFF))
    with listening(site.config.runtime):
        with dialled(site.config.listen):
            until("it is there", lambda: dict(agent.status().facts)["connections"])
            agent.tick(lambda: None)
            assert agent.status().healthy
            agent.configure(site.config)
            agent.tick(lambda: None)
            (problem,) = agent.status().problems
            assert "from when nothing was placed (1): restart this service" in problem
        until("it is gone", lambda: not dict(agent.status().facts)["connections"])
        agent.tick(lambda: None)
    assert agent.status().healthy


def test_a_relay_that_hangs_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet has no runtime until the next one serves."""
    site.agent.configure(site.config)
    hung = site.agent._relay
    assert hung is not None
    ended: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(hung, "responds", lambda _seconds: False)
        patched.setattr(hung, "stop", ended.append)
        with pytest.raises(SystemExit):
            site.agent.tick(lambda: None)
        site.agent.stop()
    hung.stop(0)
    assert not ended


def test_whom_nobody_could_place_is_looked_at_again_when_the_machine_is_known(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.agent, "_round", lambda _whole, _alive: None)
    site.agent.configure(site.config)
    truth, online = site.agent._truth, site.place / "sys/devices/system/cpu/online"
    assert truth is not None
    was = online.read_text()
    online.unlink()
    site.agent.tick(lambda: None)
    assert not site.agent.status().healthy
    truth._foreign.add("c1")
    online.write_text(was)
    site.agent.tick(lambda: None)
    assert site.agent.status().healthy and not truth._foreign
