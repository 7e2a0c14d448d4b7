# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An agent and its kubelet in a directory whose sockets' paths stay short."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dp-", dir="/tmp") as made:
        (Path(made) / "k").mkdir()
        yield Path(made)


@pytest.fixture
def kubelet(place: Path) -> Iterator[KubeletDouble]:
    double = KubeletDouble(place / "k")
    double.start()
    yield double
    double.stop()


@pytest.fixture
def start(place: Path) -> Iterator[Callable[[str], AgentProcess]]:
    started: list[AgentProcess] = []

    def begin(config: str) -> AgentProcess:
        started.append(AgentProcess(place, f"kubelet_dir: {place}/k\n{config}"))
        return started[-1]

    yield begin
    for agent in started:
        agent.close()
