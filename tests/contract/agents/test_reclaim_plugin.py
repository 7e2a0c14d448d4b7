# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The whole agent as a process: it holds pods to their blocks and takes memory back. The API server is real, the node
made up, the kubelet a double."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import (
    RESOURCE,
    Given,
    PodResourcesDouble,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MIB, MadeNode
from colocation.device_plugin.kubelet_state import CHECKPOINT

SPACE, NODE = "reclaim-plugin", "reclaim-plugin-node"


class Site:
    """A node of 20 GiB; pods that are in the API hold blocks of 512 MiB."""

    def __init__(self, place: Path, kubelet: KubeletDouble, server: ApiServer) -> None:
        self.place, self.kubelet, self.server = place, kubelet, server
        self.node = MadeNode(place, driver="cgroupfs")
        self.node.memory(20 * GIB, 10 * GIB)
        self.pods = PodResourcesDouble(place / "pods.sock", place / "k" / CHECKPOINT)
        self.cgroups: dict[str, Path] = {}
        self.access = place / "kubeconfig"
        self.access.write_text(json.dumps(server.kubeconfig(f"system:node:{NODE}", "system:nodes")))

    def config(self, **reclaim: object) -> str:
        settings = {"check_seconds": 1, **reclaim}
        return (
            f"pod_resources_socket: {self.pods.socket}\ncgroup_root: {self.node.root}\nrefresh_seconds: 0.2\n"
            f"retry_seconds: 0.2\nkubernetes: {{kubeconfig: {self.access}, node: {NODE}}}\n"
            f"reclaim: {json.dumps(settings)}\nmemory: {json.dumps({RESOURCE: self.node.settings()})}\n"
        )

    def pod(self, name: str, use: int, *blocks: str, sidecar: str = "") -> Path:
        asked = {"main": {RESOURCE: str(len(blocks))}, **({"sidecar": {"memory": sidecar}} if sidecar else {})}
        containers = [{"name": n, "image": "none", "resources": {"limits": limits}} for n, limits in asked.items()]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"nodeName": NODE, "containers": containers},
        }
        self.server.kubectl("create", "-f", "-", stdin=json.dumps(document))
        uid = self.ask("pod", name, ".metadata.uid")
        cgroup = self.cgroups[name] = self.node.pod(uid, use)
        for file, text in (("memory.max", "max\n"), ("cgroup.kill", "")):
            (cgroup / file).write_text(text)
        self.pods.given.append(Given(uid, SPACE, name, "main", RESOURCE, blocks))
        self.pods.write()
        return cgroup

    def ask(self, kind: str, name: str, path: str) -> str:
        return self.server.kubectl("-n", SPACE, "get", kind, name, "-o", f"jsonpath={{{path}}}")

    def leaving(self, name: str) -> bool:
        return bool(self.ask("pod", name, ".metadata.deletionTimestamp"))

    def unhealthy(self) -> set[str]:
        """Blocks that the kubelet was told not to give."""
        watched = self.kubelet.watched(RESOURCE)
        return {id for id, health in watched[-1].lists[-1] if health != "Healthy"} if watched else set()

    def allocatable(self) -> str:
        return self.ask("node", NODE, ".status.allocatable." + RESOURCE.replace(".", "\\."))


@pytest.fixture
def site(place: Path, kubelet: KubeletDouble, api_server: ApiServer) -> Iterator[Site]:
    for kind, name in (("Namespace", SPACE), ("Node", NODE)):
        document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        api_server.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
    api_server.kubectl("apply", "-f", "-", stdin=json.dumps(account))
    made = Site(place, kubelet, api_server)
    made.pods.start()
    yield made
    made.pods.stop()
    api_server.kubectl("-n", SPACE, "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")


Start = Callable[[str], AgentProcess]


def test_pods_are_limited_evicted_and_killed(site: Site, start: Start) -> None:
    first = site.pod("first", 900 * MIB, "CM-0-0", "CM-0-1")
    second = site.pod("second", 300 * MIB, "CM-0-2", "CM-0-3", "CM-0-4")
    site.node.memory(20 * GIB, 1200 * MIB)
    agent = start(site.config(over_allocation="tolerate"))
    until("both are held to their blocks", lambda: (second / "memory.max").read_text() == str(1536 * MIB))
    assert (first / "memory.max").read_text() == str(1024 * MIB)
    until("it knows the pods", lambda: agent.status().healthy)
    assert not site.unhealthy()

    site.node.memory(20 * GIB, 950 * MIB)  # less than 5 %, and enough after another half second of this
    until("one is told to go", lambda: site.leaving("first"))
    until("its blocks are on offer no more", lambda: site.unhealthy() == {"CM-0-0", "CM-0-1"})
    assert (second / "cgroup.kill").read_text() == ""
    assert not site.leaving("second")

    site.node.memory(20 * GIB, 100 * MIB)
    until("the others are ended", lambda: (second / "cgroup.kill").read_text() == "1")
    until("and told to go", lambda: site.leaving("second"))
    until("nothing is on offer", lambda: site.allocatable() == "0")
    rows = [row[1:3] for table in agent.status().tables if table.title == "Memory taken back" for row in table.rows]
    assert (f"{SPACE}/second", "kill") in rows
    assert agent.status().healthy


def test_while_the_api_is_down_pods_are_still_limited_and_killed(
    site: Site, start: Start, api_server: ApiServer
) -> None:
    only = site.pod("only", 900 * MIB, "CM-0-0")
    api_server.kill()
    try:
        agent = start(site.config())
        until("it is held to its blocks", lambda: (only / "memory.max").read_text() == str(512 * MIB))
        site.node.memory(20 * GIB, 100 * MIB)
        until("it is ended", lambda: (only / "cgroup.kill").read_text() == "1")
        until("it is healthy without an API", lambda: agent.status().healthy)
    finally:
        api_server.start()
    until("it is evicted when the API is back", lambda: site.leaving("only"), 60)


def test_a_sidecars_limit_outlives_a_restart_of_the_agent_while_the_api_is_down(
    site: Site, start: Start, api_server: ApiServer
) -> None:
    only = site.pod("only", 900 * MIB, "CM-0-0", sidecar="1Gi")
    agent = start(site.config())
    until("the API told of the sidecar", lambda: (only / "memory.max").read_text() == str(1536 * MIB))
    agent.end()
    (site.place / "notify").unlink()
    api_server.kill()
    try:
        agent = start(site.config())

        def metrics() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())

        until("it is up", lambda: agent.notified("READY=1"))
        until("it looked at the limit", lambda: "colocation_limited_pods 1\n" in metrics())
        assert (only / "memory.max").read_text() == str(1536 * MIB)
        assert "colocation_limit_writes_total{" not in metrics()
    finally:
        api_server.start()


def test_a_dry_run_touches_nothing(site: Site, start: Start) -> None:
    only = site.pod("only", 900 * MIB, "CM-0-0")
    agent = start(site.config(dry_run=True, enforce=False))
    until("it is up", lambda: agent.notified("READY=1"))
    site.node.memory(20 * GIB, 100 * MIB)

    def rows() -> list[object]:
        tables = [table for table in agent.status().tables if table.title == "Memory taken back"]
        return [row[4] for table in tables for row in table.rows]

    until("it says what it would do", lambda: "dry run" in rows())
    assert set(rows()) == {"dry run"}
    assert ((only / "cgroup.kill").read_text(), (only / "memory.max").read_text()) == ("", "max\n")
    assert not site.leaving("only")
    assert not site.unhealthy()
