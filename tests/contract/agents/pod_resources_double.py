# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the kubelet's PodResources service and device checkpoint: what a test gives to pods stands in both.

As a process, `python pod_resources_double.py <directory> <pods>`, it has that many pods with two blocks each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from colocation.device_plugin.kubelet_state import CHECKPOINT, MESSAGES

RESOURCE = "test.com/colocation-memory"


@dataclass(frozen=True)
class Given:
    """What one container holds."""

    uid: str
    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]


def uid(number: int) -> str:
    """The UID of a made pod."""
    return f"{number:08x}-9c1b-4d37-8c55-1f2e3d4c5b6a"


class PodResourcesDouble:
    """Serves what `given` has; `short` makes its list empty, as after a kubelet's start while the API is down."""

    def __init__(self, socket: Path, checkpoint: Path) -> None:
        self.socket, self.checkpoint = socket, checkpoint
        self.given: list[Given] = []
        self.short = False
        self.asked = 0
        self._server: grpc.Server | None = None

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(2))
        methods = {"List": grpc.unary_unary_rpc_method_handler(self._list)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait(5)
            self._server = None

    def give(self, number: int, *ids: str, resource: str = RESOURCE) -> None:
        """The kubelet has given a pod these devices."""
        self.given.append(Given(uid(number), "batch", f"job-{number}", "main", resource, ids))
        self.write()

    def write(self, *registered: str) -> None:
        """The checkpoint, whole, as the kubelet writes it."""
        entries = [
            {
                "PodUID": one.uid,
                "ContainerName": one.container,
                "ResourceName": one.resource,
                "DeviceIDs": {"-1": list(one.ids)},
                "AllocResp": "",
            }
            for one in self.given
        ]
        data = {"PodDeviceEntries": entries or None, "RegisteredDevices": {RESOURCE: list(registered)}}
        scratch = self.checkpoint.with_name(".checkpoint")
        scratch.write_text(json.dumps({"Data": data, "Checksum": 0}))
        scratch.replace(self.checkpoint)

    def _list(self, _request: bytes, _context: grpc.ServicerContext) -> bytes:
        self.asked += 1
        answer = MESSAGES["ListPodResourcesResponse"]()
        for one in () if self.short else self.given:
            pod = answer.pod_resources.add(name=one.pod, namespace=one.namespace)
            container: Any = pod.containers.add(name=one.container)
            for id in one.ids:  # the kubelet sends one of these for each device
                container.devices.add(resource_name=one.resource, device_ids=[id])
        content: bytes = answer.SerializeToString()
        return content


def main(directory: Path, pods: int) -> None:
    double = PodResourcesDouble(directory / "pod-resources.sock", directory / CHECKPOINT)
    for number in range(pods):
        double.given.append(
            Given(
                uid(number), "batch", f"job-{number}", "main", RESOURCE, tuple(f"CM-0-{2 * number + n}" for n in (0, 1))
            )
        )
    double.write()
    double.start()
    print(os.getpid(), flush=True)
    signal.sigwait({signal.SIGTERM})
    double.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main(Path(sys.argv[1]), int(sys.argv[2]))
