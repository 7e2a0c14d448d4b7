# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The plugin of GPUs as a process, with a real API server. The GPUs are a file's; the kubelet is a double, and in some
rounds a kubelet's own device manager.

The rounds are few here; COLOCATION_GPU_ROUNDS=100 asks for more.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.device_manager import DeviceManager
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import (
    GIB,
    HONOURED,
    RESOURCE,
    UNIT,
    UNITS,
    UUIDS,
    Told,
    coming,
    gpus_of,
    honoured,
    shape_of,
    strike,
    wrong,
)
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_site import GpuSite
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import Given
from ansible_collections.colocation.kubernetes.tests.contract.agents.upper_scheduler_double import (
    ASSIGNED,
    UUID,
    UpperScheduler,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

ROUNDS = int(os.environ.get("COLOCATION_GPU_ROUNDS", "4"))
USED = "DOSLAB_IO_GPU_RESOURCE_USED_BY_"
PODS = 40


@pytest.fixture
def site(
    api_server: ApiServer, place: Path, kubelet: KubeletDouble, start: Callable[[str], AgentProcess]
) -> Iterator[GpuSite]:
    with GpuSite(api_server, place, kubelet, start).prepared() as made:
        yield made


def told(site: GpuSite) -> dict[str, Told]:
    """All that is said of the pods that run, by UID."""
    return {
        uid: Told(one.name, shape_of(pod), one.ids, one.environment, pod["metadata"].get("annotations") or {})
        for uid, pod in site.pods.pods().items()
        if (one := site.pods.served.get(uid))
    }


def check(site: GpuSite) -> None:
    """Nothing is over-committed, and environment, IDs and annotations say the same for each pod."""
    found: list[str] = []

    def agree() -> bool:
        pods = told(site)
        assert pods.keys() == site.pods.served.keys()
        found[:] = wrong(pods.values())
        return not found

    try:
        until("all that is said of pods agrees", agree)
    except AssertionError as late:
        raise AssertionError("\n".join(found)) from late


def renew(site: GpuSite, chance: random.Random, bound: bool) -> None:
    """Some pods end, and as many come; one that was refused comes again, as its controller would have it."""
    living = told(site)
    gone = chance.sample(sorted(living), min(len(living), chance.randint(PODS // 4, PODS // 2)))
    site.delete([*(living[uid].name for uid in gone), *site.pods.refused])
    site.pods.refused.clear()
    left = all_pods(site)  # those that wait as well
    for shape in coming(chance, PODS - len(left), sum(shape_of(pod).size for pod in left)):
        site.make(*(gib * GIB for gib in shape.containers), init=shape.init * GIB, bound=bound)


def all_pods(site: GpuSite) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.admin.get(f"/api/v1/namespaces/{site.space}/pods")["items"]
    return found


def refused_rightly(site: GpuSite) -> None:
    """Only for want of room on one GPU."""
    for said in site.pods.refused.values():
        assert "units of one GPU are wanted, and none has more than" in said


def until_all_holders_are_known(site: GpuSite, agent: AgentProcess) -> None:
    """By pod, container, GPU and amount."""

    def row(one: Given) -> tuple[str, ...]:
        amount = f"{len(one.ids) * UNIT / 1024:.2f} GiB"
        return f"{one.namespace}/{one.pod}", one.container, *gpus_of(one.ids), amount

    def known() -> set[tuple[object, ...]]:
        tables = agent.status().tables
        return {row[1:] for row in tables[2].rows} if len(tables) > 2 else set()

    until("it knows all holders", lambda: known() == set(map(row, site.pods.resources.given)))


def shake(site: GpuSite, kubelet: KubeletDouble | DeviceManager, agent: AgentProcess, what: str) -> AgentProcess:
    """Restart something."""
    if what == "kill":
        agent.process.kill()
        agent.process.wait()
        agent = site.start()
        until_all_holders_are_known(site, agent)
    elif what == "restart":
        kubelet.stop()
        kubelet.start()
    until("the kubelet watches", lambda: agent.status().summary == "the kubelet watches 1 of 1 resources")
    site.until_offered()
    return agent


@pytest.mark.parametrize("upper", [False, True], ids=["alone", "upper scheduler"])
def test_rounds(site: GpuSite, kubelet: KubeletDouble, upper: bool) -> None:
    rounds(site, kubelet, upper)


@pytest.mark.parametrize("upper", [False, True], ids=["alone", "upper scheduler"])
def test_rounds_with_the_kubelets_own_device_manager(
    api_server: ApiServer, place: Path, manager: DeviceManager, start: Callable[[str], AgentProcess], upper: bool
) -> None:
    with GpuSite(api_server, place, manager, start).prepared() as site:
        rounds(site, manager, upper)


def rounds(site: GpuSite, kubelet: KubeletDouble | DeviceManager, upper: bool) -> None:
    chance = random.Random(9)
    scheduler = UpperScheduler(site.admin, site.node, site.space, RESOURCE, UUIDS, UNITS, 9)
    agent = site.start()
    site.until_offered()
    refused = served = planned = kept = 0
    for number in range(ROUNDS):
        renew(site, chance, bound=not upper)
        assert len(all_pods(site)) == PODS
        if upper:
            scheduler.run(dies=0.2)
        what, before = strike(number, upper), set(site.pods.served)
        if number % 2:
            agent = shake(site, kubelet, agent, what)
        site.pods.sync(chance)
        refused += len(site.pods.refused)
        served += len(site.pods.served)
        assert len(site.pods.served) == PODS - len(site.pods.refused) - waiting(site)
        refused_rightly(site)
        if not number % 2:
            agent = shake(site, kubelet, agent, what)
        check(site)
        some = honoured(scheduler.plan, (one for uid, one in told(site).items() if uid not in before))
        kept, planned = kept + some[0], planned + some[1]
    assert refused <= served / 20
    assert kept >= planned * HONOURED
    assert not upper or scheduler.died and planned
    until_all_holders_are_known(site, agent)
    assert "traceback" not in agent.log().lower()


def waiting(site: GpuSite) -> int:
    """Pods that the upper scheduler has not bound."""
    return sum(not pod["spec"].get("nodeName") for pod in all_pods(site))


def test_an_annotated_gpu_is_taken_and_then_assigned(site: GpuSite) -> None:
    agent = site.start()
    site.until_offered()
    name = site.make(64, notes={UUID: UUIDS[2], ASSIGNED: "false", "DOSLAB_IO_GPU_ASSUME_TIME": "1"})
    site.pods.sync(random.Random(1))
    (served,) = site.pods.served.values()
    assert served.environment["c0"] == {
        "NVIDIA_VISIBLE_DEVICES": UUIDS[2],
        "DOSLAB_IO_GPU_UUID": UUIDS[2],
        f"{USED}POD": "2048",
        f"{USED}CONTAINER": "2048",
        "DOSLAB_IO_GPU_RESOURCE_TOTAL": "81920",
    }
    check(site)
    until("the page shows it", lambda: agent.status().tables[2].rows)
    (row,) = agent.status().tables[2].rows
    assert row == ("a", f"{site.space}/{name}", "c0", UUIDS[2], "2.00 GiB")
    assert agent.status().tables[1].rows[2][4:] == (
        "a·······························",
        "2.00 GiB",
        "78.00 GiB",
        "healthy",
    )
    until("it is healthy", lambda: agent.status().healthy)


def test_counts_are_on_the_node_and_come_again(site: GpuSite, kubelet: KubeletDouble) -> None:
    agent = site.start()
    wanted = {"doslab.io/gpu-count": "4", "doslab.io/gpu-core": "400"}
    until("they are there", lambda: site.node_status("capacity").items() >= wanted.items())
    assert site.node_status("allocatable").items() >= wanted.items()
    gone = json.dumps({"status": {"capacity": dict.fromkeys(wanted), "allocatable": dict.fromkeys(wanted)}})
    site.server.kubectl("patch", "node", site.node, "--subresource=status", "--type=merge", "-p", gone)
    assert not site.node_status("capacity").items() & wanted.items()
    kubelet.stop()
    kubelet.start()
    until("they came again", lambda: site.node_status("capacity").items() >= wanted.items())
    assert agent.process.poll() is None


def test_an_ill_gpu_and_one_that_is_well_again(site: GpuSite, kubelet: KubeletDouble) -> None:
    agent = site.start()
    site.until_offered()
    site.make(64, notes={UUID: UUIDS[1]})
    site.pods.sync(random.Random(1))
    site.describe(gpu1="XID 79")

    def ill() -> int:
        (plugin,) = kubelet.watched(RESOURCE)
        return sum(health == "Unhealthy" for _id, health in plugin.lists[-1])

    until("its units are unhealthy", lambda: ill() == UNITS)
    until("the Node has an event", lambda: (site.node, "ColocationGpuIll") in site.events())
    until("the counts are less", lambda: site.node_status("capacity").get("doslab.io/gpu-core") == "300")
    assert dict(agent.status().facts)["GPUs that are ill"] == f"{UUIDS[1]} (XID 79)"
    assert agent.status().healthy
    assert len(site.pods.pods()) == 1  # whoever runs there goes on
    site.describe()
    until("they are healthy again", lambda: ill() == 0)
    until("and that is told", lambda: (site.node, "ColocationGpuWell") in site.events())
    until("the counts are back", lambda: site.node_status("capacity").get("doslab.io/gpu-core") == "400")
    check(site)


def test_a_request_larger_than_any_gpu(site: GpuSite) -> None:
    site.start()
    site.until_offered()
    name = site.make(UNITS + 1)
    site.pods.sync(random.Random(1))
    assert f"{UNITS + 1} units ({81920 + UNIT} MiB) are more than any GPU of this node has" in site.pods.refused[name]
    until("the pod has an event", lambda: (name, "ColocationGpuRequestTooLarge") in site.events())


def test_the_wrong_unit_is_refused(site: GpuSite, kubelet: KubeletDouble) -> None:
    """Eight GPUs of 80 GiB in MiB."""
    agent = site.start(unit_mib=1)
    until("it says so", lambda: any("set unit_mib to 32 or more, on all nodes" in p for p in agent.status().problems))
    assert not kubelet.plugins


def test_a_unit_that_does_not_fit_is_not_taken_by_a_reload(site: GpuSite, kubelet: KubeletDouble) -> None:
    agent = site.start()
    site.until_offered()
    (plugin,) = kubelet.watched(RESOURCE)
    site.reload(agent, unit_mib=1)
    until("it says so", lambda: any("set unit_mib to 32 or more" in said for said in agent.status().problems))
    site.make(64)
    site.pods.sync(random.Random(1))
    (before,) = site.pods.served.values()
    assert before.environment["c0"][f"{USED}CONTAINER"] == "2048"
    assert len(plugin.lists) == 1
    site.reload(agent, unit_mib=64)
    until("there is a new list", lambda: site.pods.offered() == 4 * UNITS // 2)
    name = site.make(64)
    site.pods.sync(random.Random(1))
    assert not site.pods.refused
    (after,) = (served for served in site.pods.served.values() if served.name == name)
    assert after.environment["c0"][f"{USED}CONTAINER"] == "4096"
    assert len(kubelet.plugins) == 1


def test_an_api_server_that_is_away_while_a_pod_is_served(site: GpuSite, kubelet: KubeletDouble) -> None:
    site.start()
    site.until_offered()
    site.make(64, notes={UUID: UUIDS[3], ASSIGNED: "false"})
    plugin = kubelet.watched(RESOURCE)[0]
    until("it steers", lambda: gpus_of(plugin.prefer(site.pods.free(), [], 64)) == [UUIDS[3]])
    ids = plugin.prefer(site.pods.free(), [], 64)
    site.server.pause()
    try:
        (answer,) = plugin.allocate(ids).container_responses
    finally:
        site.server.resume()
    assert answer.envs[UUID] == UUIDS[3]
    assert f"{USED}POD" not in answer.envs
