# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The device plugin that offers memory, as a process on a made-up node, with doubles of the kubelet over real gRPC."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble, Registered
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import (
    RESOURCE,
    PodResourcesDouble,
    uid,
)
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MadeNode
from colocation.device_plugin.kubelet_state import CHECKPOINT
from colocation.device_plugin.protocol import MESSAGES

SIXTEEN = [f"CM-0-{number}" for number in range(16)]


class Site:
    """A node of 20 GiB, of which 10 are in use, so that 16 blocks of 512 MiB are left by a watermark of 10 %."""

    def __init__(self, place: Path, kubelet: KubeletDouble, start: Callable[[str], AgentProcess]) -> None:
        self.kubelet = kubelet
        self.node = MadeNode(place)
        self.node.memory(20 * GIB, 10 * GIB)
        self.pods = PodResourcesDouble(place / "pods.sock", place / "k" / CHECKPOINT)
        self._start = start

    def start(self, refresh: float = 0.2, **settings: object) -> AgentProcess:
        agent = self._start(self.config(refresh, **settings))
        until("it is up", lambda: agent.notified("READY=1"), 60)
        return agent

    def config(self, refresh: float = 0.2, **settings: object) -> str:
        memory = json.dumps({RESOURCE: self.node.settings(**settings)})
        return (
            f"pod_resources_socket: {self.pods.socket}\ncgroup_root: {self.node.root}\nrefresh_seconds: {refresh}\n"
            f"retry_seconds: 0.2\nreclaim: {{enabled: false, enforce: false}}\nmemory: {memory}\n"
        )

    def offered(self) -> list[str]:
        """What the kubelet was sent last."""
        watched = self.kubelet.watched(RESOURCE)
        return [id for id, _health in watched[-1].lists[-1]] if watched else []

    def plugin(self) -> Registered:
        return self.kubelet.watched(RESOURCE)[-1]

    def until_offered(self, ids: list[str], seconds: float = 20) -> None:
        until(f"{len(ids)} blocks on offer", lambda: sorted(self.offered()) == sorted(ids), seconds)


@pytest.fixture
def site(place: Path, kubelet: KubeletDouble, start: Callable[[str], AgentProcess]) -> Iterator[Site]:
    made = Site(place, kubelet, start)
    made.pods.start()
    yield made
    made.pods.stop()


def test_the_seeds_pod_gets_three_blocks(site: Site, place: Path) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    plugin = site.plugin()
    assert plugin.options == (True, False)
    assert os.readlink(place / "k" / "colocation-memory.sock") == plugin.endpoint
    question = {"available_deviceIDs": SIXTEEN[4:], "must_include_deviceIDs": ["CM-0-9"], "allocation_size": 3}
    content = MESSAGES["PreferredAllocationRequest"](container_requests=[question]).SerializeToString()
    answer = MESSAGES["PreferredAllocationResponse"].FromString(plugin.call("GetPreferredAllocation", content))
    chosen = list(answer.container_responses[0].deviceIDs)
    assert chosen == ["CM-0-9", "CM-0-4", "CM-0-5"]
    (given,) = plugin.allocate(chosen).container_responses
    assert dict(given.envs) == {
        "TEST_COM_COLOCATION_MEMORY": "CM-0-9,CM-0-4,CM-0-5",
        "COLOCATION_MEMORY_BYTES": "1610612736",
    }
    assert dict(given.annotations)["colocation-memory/bytes"] == "1610612736"
    site.pods.give(1, *chosen)
    site.node.pod(uid(1), GIB)
    until(
        "the page knows the pod",
        lambda: [row[:3] for row in agent.status().tables[2].rows] == [("batch/job-1", "main", 3)],
    )
    until("it is healthy", lambda: agent.status().healthy)
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        plugin.call("PreStartContainer", b"")


def test_it_shrinks_within_a_second_or_two_but_not_below_what_is_held(site: Site) -> None:
    site.start(refresh=600)
    site.until_offered(SIXTEEN)
    site.plugin().allocate(["CM-0-15"])
    site.pods.give(1, "CM-0-15")
    site.node.memory(20 * GIB, GIB)
    site.until_offered(["CM-0-15"], 5)
    assert len(site.plugin().lists) == 2


def test_while_grants_do_not_stop_a_holders_memory_is_its_own(site: Site) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    plugin, blocks = site.plugin(), SIXTEEN[:4]
    plugin.allocate(blocks)
    site.pods.give(1, *blocks)
    site.node.pod(uid(1), 2 * GIB)
    site.node.memory(20 * GIB, 8 * GIB)

    def held() -> list[object]:
        plugin.allocate(["CM-0-15"])  # of a pod that waits for its other containers' devices
        return [row[2] for row in agent.status().tables[2].rows]

    until("the page knows the pod", lambda: held() == [4])
    assert sorted(site.offered()) == sorted(SIXTEEN)


def test_a_block_goes_when_its_pod_has_gone(site: Site) -> None:
    site.pods.give(1, "CM-0-40")
    site.start()
    site.until_offered([*SIXTEEN[:15], "CM-0-40"])
    site.pods.given.clear()
    site.pods.write()
    site.until_offered(SIXTEEN)


def test_killed_and_started_again_it_offers_the_same_blocks(site: Site, place: Path) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    site.plugin().allocate(["CM-0-3", "CM-0-12"])
    site.pods.give(1, "CM-0-3", "CM-0-12")
    site.node.pod(uid(1), GIB)
    site.node.memory(20 * GIB, 5 * GIB)
    six = ["CM-0-12", "CM-0-3", *(f"CM-0-{n}" for n in (0, 1, 2, 4, 5, 6))]
    site.until_offered(six)  # 20 − 2 − (15 − 1) GiB
    agent.process.kill()
    agent.process.wait()
    (place / "notify").unlink()
    site.start()
    until("it registers again", lambda: len(site.kubelet.plugins) == 2)
    site.until_offered(six)
    assert len(site.plugin().lists) == 1  # never one without the held blocks before


def test_a_kubelet_that_starts_while_the_api_is_down_still_sees_what_is_held(site: Site) -> None:
    """Its list of pods is empty then; the checkpoint, which outlived it, is not."""
    site.start()
    site.until_offered(SIXTEEN)
    site.pods.give(1, "CM-0-15")
    site.node.pod(uid(1), GIB)
    site.node.memory(20 * GIB, 0)
    site.until_offered(["CM-0-15"])
    checkpoint = site.pods.checkpoint.read_bytes()
    site.kubelet.stop()
    site.pods.short = True
    site.kubelet.start()
    site.pods.checkpoint.write_bytes(checkpoint)
    until("it registers again", site.offered)
    assert site.plugin().lists == [[("CM-0-15", "Healthy")]]


def test_without_the_list_of_pods_the_checkpoint_does(site: Site) -> None:
    site.pods.give(1, "CM-0-40")
    site.pods.stop()
    site.pods.socket.unlink(missing_ok=True)
    agent = site.start()
    site.until_offered([*SIXTEEN[:15], "CM-0-40"])
    until("it is healthy all the same", lambda: agent.status().healthy)
    assert "PodResources" in str(dict(agent.status().facts)["who holds what"])
    site.pods.start()
    until("it is well", lambda: "who holds what" not in dict(agent.status().facts))


def test_memory_that_can_not_be_read_is_told_and_the_offer_stays(site: Site) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    meminfo = site.node.proc / "meminfo"
    meminfo.unlink()
    until("it is told", lambda: "what is offered stays as it was" in " ".join(agent.status().problems))
    site.kubelet.stop()
    site.kubelet.start()
    site.until_offered(SIXTEEN)
    site.node.memory(20 * GIB, 10 * GIB)
    until("it is healthy", lambda: agent.status().healthy)


def test_before_the_memory_was_read_nothing_is_registered(site: Site) -> None:
    (site.node.proc / "meminfo").unlink()
    agent = site.start()
    until("it is told", lambda: "meminfo" in " ".join(agent.status().problems))
    assert site.kubelet.plugins == []
    site.node.memory(20 * GIB, 10 * GIB)
    site.until_offered(SIXTEEN)


def test_other_settings_are_taken_on_the_fly(site: Site, place: Path) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    plugin = site.plugin()
    agent.configure(f"kubelet_dir: {place}/k\n" + site.config(watermark=0.2))
    agent.reload()
    site.until_offered(SIXTEEN[:12])
    assert site.plugin() is plugin
    agent.configure(f"kubelet_dir: {place}/k\n" + site.config(watermark="much"))
    agent.reload()
    until("it is told", lambda: "watermark" in " ".join(agent.status().problems))
    assert len(plugin.lists) == 2


def test_a_list_that_is_too_large_is_never_sent_and_names_the_unit(site: Site) -> None:
    site.node.memory(150 * 1024 * GIB, 150 * 1024 * GIB)
    agent = site.start(unit_mib=512)
    until("it is told", lambda: "set unit_mib to 1024 or more" in " ".join(agent.status().problems), 60)
    assert site.kubelet.plugins == []


def test_metrics(site: Site) -> None:
    agent = site.start()
    site.until_offered(SIXTEEN)
    site.plugin().allocate(["CM-0-3", "CM-0-4"])

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
        return text

    until("the devices are counted", lambda: f'colocation_devices_allocated{{resource="{RESOURCE}"}} 2\n' in page())
    text = page()
    for name, value in (
        ("colocation_devices", 16),
        ("colocation_allocations_total", 1),
        ("colocation_allocated_total", 2),
        ("colocation_registrations_total", 1),
        ("colocation_list_bytes", 10 * 19 + 6 * 20),
    ):
        assert f'{name}{{resource="{RESOURCE}"}} {value}\n' in text
    assert 'colocation_memory_target_blocks{zone="all"} 16\n' in text
