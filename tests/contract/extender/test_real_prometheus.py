# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real Prometheus as a source: recording rules, the label `node`, ages, targets that die, queries that are wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.extender.some_cluster import until
from ansible_collections.colocation.kubernetes.tests.contract.prometheus_server import PrometheusServer
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB, node
from colocation.common.config import load
from colocation.scheduler.config import Prometheus
from colocation.scheduler.prometheus import PrometheusSource
from colocation.scheduler.sources import Sampling, SourceError

NODES = {name: node(name) for name in "ab"}
CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: node
    static_configs:
      - {{targets: ["127.0.0.1:{a}"], labels: {{node: a}}}}
      - {{targets: ["127.0.0.1:{b}"], labels: {{node: b}}}}
"""
RULES = """\
groups:
  - name: use
    rules:
      - {record: node_mem_usage_avg_5m, expr: 100 - 100 * memory_free_bytes / memory_total_bytes}
      - {record: node_cpu_usage_avg_5m, expr: 100 * cpu_busy_ratio}
"""


class FakeExporter(ThreadingHTTPServer):
    """A node's metrics, with made-up values."""

    daemon_threads = True

    def __init__(self, free: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.text = f"memory_total_bytes {100 * GIB}\nmemory_free_bytes {free * GIB}\ncpu_busy_ratio 0.5\n"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FakeExporter

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def exporters() -> Iterator[list[FakeExporter]]:
    made = [FakeExporter(60), FakeExporter(20)]
    yield made
    for exporter in made:
        exporter.stop()


@pytest.fixture
def prometheus(exporters: list[FakeExporter], tmp_path: Path) -> Iterator[PrometheusServer]:
    config = CONFIG.format(a=exporters[0].port, b=exporters[1].port)
    made = PrometheusServer(tmp_path, config, RULES)
    try:
        made.until_ready()
        yield made
    finally:
        made.stop()


def source(prometheus: PrometheusServer, settings: str = "") -> PrometheusSource:
    return PrometheusSource((prometheus.address,), load(Prometheus, settings, "prometheus"), 5.0, False)


def shares(sampling: Sampling) -> dict[str, tuple[float, float]]:
    return {
        name: (round(cpu.share, 6), round(memory.share, 6))
        for name, (cpu, memory) in sampling.nodes.items()
        if cpu is not None and memory is not None
    }


def test_a_real_prometheus_from_its_rules_to_a_target_that_dies(
    prometheus: PrometheusServer, exporters: list[FakeExporter]
) -> None:
    made = source(prometheus)
    until("both nodes are recorded", lambda: shares(made.sample(NODES)) == {"a": (0.5, 0.4), "b": (0.5, 0.8)})
    sampling = made.sample(NODES)
    assert sampling.problems == ()
    (_cpu, memory) = sampling.nodes["a"]
    assert memory is not None
    assert 0 <= memory.age < 5
    assert memory.stamp == pytest.approx(time.time(), abs=5)

    def another() -> bool:
        found = made.sample(NODES).nodes["a"][1]
        return found is not None and found.stamp > memory.stamp

    until("a new sample has another time", another)
    exporters[1].stop()
    until("what died has no value", lambda: set(made.sample(NODES).nodes) == {"a"})
    assert "gives nothing for 1 of 2 nodes" in made.sample(NODES).problems[1]

    ratio = source(
        prometheus, "queries: {memory: 1 - memory_free_bytes / memory_total_bytes, unit: ratio, cpu: cpu_busy_ratio}"
    )
    assert shares(ratio.sample(NODES)) == {"a": (0.5, 0.4)}
    free = source(prometheus, "queries: {memory: memory_free_bytes, cpu: 2 * cpu_busy_ratio, unit: absolute}")
    assert shares(free.sample(NODES)) == {"a": (0.1, 0.6)}
    with pytest.raises(SourceError, match="answers 400.*parse error"):
        source(prometheus, "queries: {memory: 'rate('}").sample(NODES)
    with pytest.raises(SourceError, match="gives a scalar"):
        source(prometheus, "queries: {cpu: '1'}").sample(NODES)
