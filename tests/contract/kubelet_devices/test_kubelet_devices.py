# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""kubelet_devices_info against checkpoints that the kubelet's code wrote and against its gRPC library."""

from __future__ import annotations

import random
import socket
import string
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._checkpoint import parse_checkpoint
from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError, call
from ansible_collections.colocation.kubernetes.plugins.module_utils._pod_resources import LIST_METHOD, read_list
from ansible_collections.colocation.kubernetes.plugins.modules import kubelet_devices_info
from ansible_collections.colocation.kubernetes.tests.contract.kubelet_devices.kubelet_parts import (
    PodResourcesDouble,
    write_checkpoints,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules import module_call

GPU, FPGA = "mock.com/gpu", "plugin.com/fpga"
RESPONSE = {
    "envs": {"MOCK_DEVICES": "gpu-0,gpu-1", "EMPTY": ""},
    "mounts": [{"container_path": "/dev/shm/gpu", "host_path": "/run/gpu", "read_only": True}],
    "devices": [{"container_path": "/dev/gpu0", "host_path": "/dev/mock0", "permissions": "rw"}],
    "annotations": {"mock.com/matched": "yes"},
    "cdi_devices": [{"name": "mock.com/gpu=0"}],
}
WANTED = {
    "Entries": [
        {
            "PodUID": "uid-1",
            "ContainerName": "main",
            "ResourceName": GPU,
            "DeviceIDs": {"0": ["gpu-0"], "1": ["gpu-1"]},
        },
        {"PodUID": "uid-gone", "ContainerName": "old", "ResourceName": GPU, "DeviceIDs": {"-1": ["gpu-9"]}},
    ],
    "Registered": {GPU: ["gpu-0", "gpu-1", "gpu-2"], FPGA: ["f"]},
    "Response": RESPONSE,
}
ANSWER = {
    "pod_resources": [
        {
            "name": "trainer",
            "namespace": "batch",
            "containers": [
                {
                    "name": "main",
                    "cpu_ids": [0, 1],
                    "devices": [
                        {"resource_name": GPU, "device_ids": ["gpu-0"], "topology": {"nodes": [{}]}},
                        {"resource_name": GPU, "device_ids": ["gpu-1"], "topology": {"nodes": [{"ID": 1}]}},
                        {"resource_name": FPGA, "device_ids": ["f"]},
                    ],
                },
                {"name": "side"},
            ],
        },
        {"name": "idle", "namespace": "web", "containers": [{"name": "main"}]},
    ]
}


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kd-", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def serve(place: Path) -> Iterator[Callable[[dict[str, Any]], Path]]:
    started: list[PodResourcesDouble] = []

    def begin(answer: dict[str, Any]) -> Path:
        started.append(PodResourcesDouble(place / "kubelet.sock", answer))
        return place / "kubelet.sock"

    yield begin
    for double in started:
        double.stop()


@pytest.fixture(scope="module")
def file() -> bytes:
    return write_checkpoints([WANTED])[0]


def info(place: Path) -> dict[str, Any]:
    paths: dict[str, Any] = {"socket": str(place / "kubelet.sock"), "checkpoint": str(place / "checkpoint")}
    return module_call.call(kubelet_devices_info.main, timeout=5, **paths)


def test_both_sources_joined(place: Path, serve: Callable[[dict[str, Any]], Path], file: bytes) -> None:
    serve(ANSWER)
    (place / "checkpoint").write_bytes(file)
    found = info(place)
    gone, gpu, fpga = found["allocations"]
    assert (gpu["namespace"], gpu["pod"], gpu["pod_uid"], gpu["container"]) == ("batch", "trainer", "uid-1", "main")
    assert gpu["devices"] == [{"id": "gpu-0", "numa_nodes": [0]}, {"id": "gpu-1", "numa_nodes": [1]}]
    assert gpu["environment"] == RESPONSE["envs"] and gpu["annotations"] == RESPONSE["annotations"]
    assert gpu["mounts"] == RESPONSE["mounts"] and gpu["device_files"] == RESPONSE["devices"]
    assert gpu["cdi_devices"] == ["mock.com/gpu=0"] and gpu["sources"] == ["pod_resources", "checkpoint"]
    assert (gone["pod_uid"], gone["sources"], gone["pod"]) == ("uid-gone", ["checkpoint"], "")
    assert gone["devices"] == [{"id": "gpu-9", "numa_nodes": []}]
    assert (fpga["pod"], fpga["sources"], fpga["environment"]) == ("trainer", ["pod_resources"], {})
    assert found["resources"] == [
        {"name": GPU, "registered": 3, "allocated": 3, "free": 1},
        {"name": FPGA, "registered": 1, "allocated": 1, "free": 0},
    ]
    assert found["pod_resources"] == {"read": True, "problem": ""}
    assert found["checkpoint"] == {"read": True, "intact": True, "format": "numa", "problem": ""}


def test_each_source_alone(place: Path, serve: Callable[[dict[str, Any]], Path], file: bytes) -> None:
    assert "neither source can be read" in info(place)["msg"]
    (place / "checkpoint").write_bytes(file)
    found = info(place)
    assert [one["pod_uid"] for one in found["allocations"]] == ["uid-1", "uid-gone"]
    assert "No such file" in found["pod_resources"]["problem"]
    (place / "checkpoint").unlink()
    serve(ANSWER)
    found = info(place)
    assert [one["pod"] for one in found["allocations"]] == ["trainer", "trainer"]
    assert "No such file" in found["checkpoint"]["problem"] and found["resources"][0]["registered"] is None


def test_a_damaged_checkpoint_beside_a_kubelet_that_answers(
    place: Path, serve: Callable[[dict[str, Any]], Path], file: bytes
) -> None:
    serve(ANSWER)
    (place / "checkpoint").write_bytes(file.replace(b"gpu-2", b"gpu-7"))
    found = info(place)
    assert found["checkpoint"]["read"] and not found["checkpoint"]["intact"]
    assert "a kubelet would ignore it" in found["checkpoint"]["problem"]
    assert {one["pod"] for one in found["allocations"]} == {"trainer"}


@pytest.mark.parametrize("length", [0, 1, 20, 100, 300])
def test_a_truncated_checkpoint_is_told(place: Path, file: bytes, length: int) -> None:
    (place / "checkpoint").write_bytes(file[:length])
    answer = info(place)
    assert answer["failed"] and ("cut off" in answer["msg"] or "it is empty" in answer["msg"])


def text(source: random.Random) -> str:
    letters = string.ascii_letters + string.digits + "-./: []{}<>\"'\\äß€\U0001f600\n\t"
    return "".join(source.choice(letters) for _time in range(source.randrange(12)))


def any_wish(source: random.Random) -> dict[str, Any]:
    entries = [
        {
            "PodUID": text(source),
            "ContainerName": text(source),
            "ResourceName": text(source),
            "DeviceIDs": source.choice(
                [
                    None,
                    {},
                    {
                        str(source.randrange(-1, 12)): source.choice([None, [text(source) for _time in range(3)]])
                        for _time in range(source.randrange(14))
                    },
                ]
            ),
            "AllocResp": source.choice([None, "", "AAECAwQ=", "/////w=="]),
        }
        for _time in range(source.randrange(4))
    ]
    registered = {text(source): source.choice([None, [], [text(source)]]) for _time in range(source.randrange(5))}
    return {"Entries": source.choice([None, entries, entries]), "Registered": source.choice([None, registered])}


def test_the_checksum_is_the_kubelets_own() -> None:
    """Names, IDs and NUMA nodes of every kind, written and hashed by the kubelet's code."""
    source = random.Random(5)
    wishes = [any_wish(source) for _time in range(300)]
    for wish, written in zip(wishes, write_checkpoints(wishes), strict=True):
        assert parse_checkpoint(written).intact, wish


def test_lists_of_devices_from_before_1_20() -> None:
    source = random.Random(6)
    ids = [None, [], ["a"], ["a", "b c"]]
    old = []
    for wish in (any_wish(source) for _time in range(100)):
        entries = [{**entry, "DeviceIDs": source.choice(ids)} for entry in wish["Entries"] or []]
        old.append({"PodDeviceEntries": entries or None, "RegisteredDevices": wish["Registered"]})
    read = [(data, parse_checkpoint(written)) for data, written in zip(old, write_checkpoints(old, "old"), strict=True)]
    listed = [(data, found) for data, found in read if found.form == "list"]
    assert len(listed) > 20 and all(found.intact for _data, found in listed), listed


@pytest.mark.parametrize("pods", [0, 1, 2000])
def test_answers_of_any_size(serve: Callable[[dict[str, Any]], Path], pods: int) -> None:
    devices = [{"resource_name": GPU, "device_ids": [f"gpu-{n}" for n in range(200)]}]
    containers = [{"name": "main", "devices": devices}]
    answer = {"pod_resources": [{"name": f"p{n}", "namespace": "n", "containers": containers} for n in range(pods)]}
    held = read_list(call(str(serve(answer)), LIST_METHOD, b"", 30))
    assert len(held) == pods and all(len(one.devices) == 200 for one in held)


def test_a_method_that_the_kubelet_does_not_know(serve: Callable[[dict[str, Any]], Path]) -> None:
    path = serve({})
    with pytest.raises(CallError, match="unimplemented: unknown service v9.PodResourcesLister"):
        call(str(path), "/v9.PodResourcesLister/List", b"", 5)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "closed the connection before it answered"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks no HTTP/2"),
        (b"\0\0\4\1\5\0\0\0\1\x8a\x8a\x8a\x8a", "HTTP status"),
        (b"\0\0\2\1\5\0\0\0\1\xff\xff", "speaks no gRPC"),
        (b"\0\0\4\3\0\0\0\0\1\0\0\0\7", "broke the call off, HTTP/2 error 7"),
        (b"\0\0\x0c\7\0\0\0\0\0\0\0\0\0\0\0\0\2busy", "closes the connection: busy"),
    ],
)
def test_what_speaks_otherwise(place: Path, said: bytes, told: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "s"))
        listener.listen()

        def talk() -> None:
            peer, _address = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(said)
                peer.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=talk)
        thread.start()
        with pytest.raises(CallError, match=told):
            call(str(place / "s"), LIST_METHOD, b"", 5)
        thread.join()


def test_a_kubelet_that_hangs_meets_the_limit(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "s"))
        listener.listen()
        with pytest.raises(CallError, match="did not answer within 0.3 s"):
            call(str(place / "s"), LIST_METHOD, b"", 0.3)
