# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A control plane without nodes, each of a version, for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import (
    SchedulerProcess,
    client,
    controller_manager,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of its own: schedulers and controllers see all that is in it."""
    with ApiServer(tmp_path_factory.mktemp("api")) as made:
        yield made


@pytest.fixture(scope="module")
def api(server: ApiServer) -> Iterator[KubeClient]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its controllers and its own scheduler run; where their logs are."""
    place = tmp_path_factory.mktemp("cluster")
    programs = [controller_manager(server, place)]
    try:
        scheduler = SchedulerProcess(server, place, "default")
        programs.append(scheduler)
        scheduler.until_ready()
        yield place
    finally:
        for program in programs:
            program.stop()
