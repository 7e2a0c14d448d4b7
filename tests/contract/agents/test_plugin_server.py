# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The calls that only some sources answer, and what becomes of a source's errors, over real gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import grpc
import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble, Registered
from colocation.device_plugin.devices import Device, Grant, NoSuchDevice, Options, Source
from colocation.device_plugin.protocol import MESSAGES
from colocation.device_plugin.server import PluginServer


class SourceDouble(Source):
    """Answers every call; what is odd makes it fail."""

    resource = "mock.com/gpu"
    options = Options(prefers=True, starts=True)

    def __init__(self) -> None:
        self.started: list[tuple[str, ...]] = []

    def devices(self, held: Set[str]) -> tuple[Device, ...]:
        return (Device("a", numa=1), Device("b", healthy=False))

    def grant(self, ids: Sequence[str]) -> Grant:
        if "odd" in ids:
            raise ValueError("these do not go together")
        return Grant({"IDS": ",".join(ids)})

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        return [*must, *sorted(set(available) - set(must), reverse=True)][:size]

    def start(self, ids: Sequence[str]) -> None:
        if "gone" in ids:
            raise NoSuchDevice("gone has gone")
        self.started.append(tuple(ids))


@pytest.fixture
def source() -> SourceDouble:
    return SourceDouble()


@pytest.fixture
def granted() -> list[str]:
    return []


@pytest.fixture
def plugin(place: Path, kubelet: KubeletDouble, source: SourceDouble, granted: list[str]) -> Iterator[Registered]:
    server = PluginServer(source, str(place / "k" / "a.sock"), b"", granted.extend)
    yield kubelet.dial(source.resource, "a.sock")
    server.stop()


def test_all_calls(plugin: Registered, source: SourceDouble, granted: list[str]) -> None:
    options = MESSAGES["DevicePluginOptions"].FromString(plugin.call("GetDevicePluginOptions", b""))
    assert (options.get_preferred_allocation_available, options.pre_start_required) == (True, True)
    parts = [{"available_deviceIDs": ["a", "b", "c"], "must_include_deviceIDs": ["b"], "allocation_size": 2}]
    asked = MESSAGES["PreferredAllocationRequest"](container_requests=parts).SerializeToString()
    answer = MESSAGES["PreferredAllocationResponse"].FromString(plugin.call("GetPreferredAllocation", asked))
    assert list(answer.container_responses[0].deviceIDs) == ["b", "c"]
    assert dict(plugin.allocate(["b", "c"]).container_responses[0].envs) == {"IDS": "b,c"}
    assert granted == ["b", "c"]
    starting = MESSAGES["PreStartContainerRequest"](devices_ids=["b", "c"]).SerializeToString()
    assert plugin.call("PreStartContainer", starting) == b""
    assert source.started == [("b", "c")]


def test_an_error_of_the_source_is_the_kubelets_and_nothing_counts_as_granted(
    plugin: Registered, granted: list[str]
) -> None:
    with pytest.raises(grpc.RpcError, match="these do not go together"):
        plugin.allocate(["a"], ["odd"])
    assert granted == []
    starting = MESSAGES["PreStartContainerRequest"](devices_ids=["gone"]).SerializeToString()
    with pytest.raises(grpc.RpcError, match="gone has gone"):
        plugin.call("PreStartContainer", starting)


def test_a_question_about_200_000_devices_is_answered(plugin: Registered) -> None:
    """It is larger than gRPC's own limit of 4 MiB."""
    ids = [f"CM-0-{number:017}" for number in range(200_000)]
    parts = [{"available_deviceIDs": ids, "allocation_size": 1}]
    asked = MESSAGES["PreferredAllocationRequest"](container_requests=parts).SerializeToString()
    assert len(asked) > 4 << 20
    answer = MESSAGES["PreferredAllocationResponse"].FromString(plugin.call("GetPreferredAllocation", asked, 30))
    assert list(answer.container_responses[0].deviceIDs) == [ids[-1]]
