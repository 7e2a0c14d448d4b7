# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A control plane without nodes, and the extender's engine beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.extender.some_cluster import SomeCluster
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.fake_prometheus import (
    FakePrometheus,
    fake_prometheus,
)
from colocation.common.config import load
from colocation.scheduler.config import Config
from colocation.scheduler.engine import Engine

Start = Callable[..., Engine]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One of its own, for it is killed and all pods in it count."""
    with ApiServer(tmp_path_factory.mktemp("api")) as made:
        yield made


@pytest.fixture
def some(server: ApiServer) -> Iterator[SomeCluster]:
    """Nodes and pods, gone after the test."""
    made = SomeCluster(server)
    yield made
    made.clear()


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    with fake_prometheus() as made:
        yield made


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(server.kubeconfig()))
    return file


@pytest.fixture
def start(kubeconfig: Path, prometheus: FakePrometheus) -> Iterator[Start]:
    """An engine with a configuration, `ready` or not yet started."""
    engines = []

    def begin(text: str = "") -> Engine:
        base = f"kubeconfig: {kubeconfig}\nqueryMetricIntervalSeconds: 1\nstale_seconds: 5\n"
        source = "" if "source:" in text else f"prometheusApiAddr: {prometheus.address}\n"
        engine = Engine(load(Config, base + source + text, "extender.yaml"))
        engines.append(engine)
        return engine

    yield begin
    for engine in engines:
        engine.stop()
