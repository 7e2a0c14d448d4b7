# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The dashboards' queries answered by a real Prometheus that scrapes real agents, on a made-up node each."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess
from ansible_collections.colocation.kubernetes.tests.contract.prometheus_server import PrometheusServer
from ansible_collections.colocation.kubernetes.tests.role_rendering import ROLES
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, write
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MadeNode

AGENTS = ("device-plugin", "cri-proxy")
# What is there only after something has happened, which nothing does here: no kubelet, pod, call or limit.
AFTER_AN_EVENT = (
    "colocation_registration_failures_total",
    "colocation_memory_resized_blocks_total",
    "colocation_reclaim_rounds_total",
    "colocation_reclaim_bytes_total",
    "colocation_reclaim_reaction_seconds_bucket",
    "colocation_limit_writes_total",
    "colocation_cri_requests_total",
    "colocation_cri_decision_seconds_bucket",
    "colocation_cri_connections{",
)
ABOVE_NOTHING = "> 0"


def device_plugin(place: Path) -> AgentProcess:
    """Ten of twenty GiB are in use; no kubelet takes the offer."""
    node = MadeNode(place / "node")
    node.memory(20 * GIB, 10 * GIB)
    node.pressure(0.5)
    memory = json.dumps({"test.com/colocation-memory": node.settings()})
    nothing = "{enabled: false}"  # the kernel's trigger would be written into the made-up file of pressure
    settings = f"cgroup_root: {node.root}\nrefresh_seconds: 1\nreclaim: {nothing}\nmemory: {memory}\n"
    return AgentProcess(place, f"kubelet_dir: {place}\n{settings}")


def cri_proxy(place: Path) -> AgentProcess:
    """Sixty-four CPUs, and a runtime that is away."""
    machine = write(MACHINES["hygon-c86"], place / "machine")
    keys = {"listen": place / "cri.sock", "runtime": f"unix://{place}/runtime.sock", "state_dir": place / "state"}
    more = {"cgroup_dir": place / "cgroup", "kubelet_dir": place / "k", "sysfs_root": machine}
    text = "".join(f"{key}: {value}\n" for key, value in {**keys, **more}.items())
    return AgentProcess(place, text, module="cri_proxy")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """It has scraped both agents twice."""
    agents: list[AgentProcess] = []
    with tempfile.TemporaryDirectory(prefix="dash-", dir="/tmp") as short:
        for name, start in zip(AGENTS, (device_plugin, cri_proxy), strict=True):
            place = Path(short, name)
            (place / "node").mkdir(parents=True)
            (place / "machine").mkdir()
            agents.append(start(place))
        targets = [f"127.0.0.1:{agent.port}" for agent in agents]
        job = {"job_name": "agents", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
        place = tmp_path_factory.mktemp("prometheus")
        server = PrometheusServer(place, yaml.safe_dump({"scrape_configs": [job]}))
        try:
            server.until_ready()
            twice = "count(count_over_time(up[1m]) > 2 and up == 1)"
            settled = "count(count_over_time(colocation_memory_target_blocks[1m]) > 2)"
            wait_until(
                "both agents to be scraped",
                lambda: values(server, twice) == [2.0] and values(server, settled) == [1.0],
                90,
                lambda: "\n".join(agent.log()[-2000:] for agent in agents),
            )
            yield server
        finally:
            server.stop()
            for agent in agents:
                agent.close()


def values(server: PrometheusServer, query: str) -> list[float]:
    """The answer's values; an error of the query is one of the test."""
    address = f"{server.address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as problem:
        raise AssertionError(f"{query}: {problem.read().decode()}") from None
    return [float(one["value"][1]) for one in found]


def queries(name: str) -> list[str]:
    document = json.loads((ROLES / "monitoring" / "files" / f"colocation-{name}-dashboard.json").read_text())
    asked = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    return [query.replace("$instance", ".*") for query in asked]


@pytest.mark.parametrize("name", AGENTS)
def test_every_query_of_a_dashboard_is_answered(name: str, prometheus: PrometheusServer) -> None:
    answered = {query: values(prometheus, query) for query in queries(name)}
    excused = (ABOVE_NOTHING, *AFTER_AN_EVENT)
    silent = [query for query, found in answered.items() if not found and not any(one in query for one in excused)]
    assert "\n".join(silent) == ""


def test_the_figures_are_those_of_the_node(prometheus: PrometheusServer) -> None:
    """8 GiB are left of 20 by 10 in use and a watermark of a tenth, so 16 blocks and four fifths of what is idle."""
    assert values(prometheus, "colocation_memory_target_blocks") == [16.0]
    (share,) = [query for query in queries("device-plugin") if "online_bytes" in query and "/" in query]
    assert values(prometheus, share) == [pytest.approx(0.8)]
