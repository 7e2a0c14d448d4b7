# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A container that gets units of several GPUs, from a kubelet's own device manager, and what runtimes are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.device_manager import DeviceManager
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import gpus_of
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_site import GpuSite
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

UNIT = 128  # MiB: all units of a node may be one container's here, so they are fewer
UNITS = 81920 // UNIT


@pytest.fixture
def site(
    api_server: ApiServer, place: Path, manager: DeviceManager, start: Callable[[str], AgentProcess]
) -> Iterator[GpuSite]:
    with GpuSite(api_server, place, manager, start).prepared() as made:
        yield made


def admitted(site: GpuSite, manager: DeviceManager, name: str) -> dict[str, Any]:
    """What the device manager says of a pod that it is to take."""
    (uid,) = (uid for uid, pod in site.pods.pods().items() if pod["metadata"]["name"] == name)
    return manager.ask(list(site.pods.pods().values()), uid)


def test_a_container_larger_than_a_gpu_gets_several_and_their_names_for_cdi(
    site: GpuSite, manager: DeviceManager
) -> None:
    site.start(unit_mib=UNIT, allow_multi_gpu=True, cdi_kind="nvidia.com/gpu")
    until("all units are on offer", lambda: site.pods.offered() == 4 * UNITS)
    held: set[str] = set()
    for size, count in ((UNITS + 100, 2), (UNITS - 100, 1), (2 * UNITS, 2)):
        said = admitted(site, manager, site.make(size))
        assert said["Error"] == ""
        given = said["Containers"]["c0"]
        ids = set(given["IDs"])
        assert len(ids) == size and not ids & held
        held |= ids
        gpus = sorted(gpus_of(ids))
        assert len(gpus) == count
        assert given["Environment"]["NVIDIA_VISIBLE_DEVICES"] == ",".join(gpus)
        assert given["Environment"]["DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER"] == str(size * UNIT)
        assert given["CDI"] == [f"nvidia.com/gpu={uuid}" for uuid in gpus]
    assert "Requested: 1, Available: 0" in admitted(site, manager, site.make(1))["Error"]
