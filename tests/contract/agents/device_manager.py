# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The device manager of a real kubelet as a process (device_manager.go), and a node whose pods it serves.

It looks for plugins in /var/lib/kubelet/device-plugins and nowhere else, so it has a file system of its own, in which
the test's directory is there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract import go_program
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_node_double import (
    GpuNodeDouble,
    Served,
)
from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import RESOURCE
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import PodResourcesDouble
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from colocation.common.kube_api import KubeApi

INSIDE = """\
mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet/device-plugins &&
mount --bind "$1" /var/lib/kubelet/device-plugins && exec "$2"
"""


class DeviceManager:
    """Can be started and stopped any number of times, like a kubelet; its checkpoint stays."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory.parent / "manager.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        program = go_program.program(Path(__file__).with_suffix(".go"))
        root = () if os.geteuid() == 0 else ("--map-root-user",)
        inside = ["unshare", "--mount", *root, "sh", "-c", INSIDE, "sh", str(self.directory), str(program)]
        with self.log.open("ab") as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen([*ENDS_WITH_US, *inside], stdin=pipe, stdout=pipe, stderr=log, text=True)

    def stop(self) -> None:
        """As a killed kubelet."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def ask(self, active: list[Any], admit: str = "") -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"Active": active, "Admit": admit}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the device manager ended: {self.log.read_text()[-2000:]}"
        said: dict[str, Any] = json.loads(line)
        return said


class ManagedNode(GpuNodeDouble):
    """A node whose pods are served by that device manager; the kubelet's record is its own checkpoint."""

    def __init__(self, manager: DeviceManager, place: Path, api: KubeApi, node: str, namespace: str) -> None:
        self.manager = manager
        self.served: dict[str, Served] = {}
        self.refused: dict[str, str] = {}
        # Its list is what the manager said; the checkpoint that goes with the double is read by nobody.
        self.resources = PodResourcesDouble(place / "pods.sock", place / "of-the-double")
        self._api, self._node, self._namespace = api, node, namespace

    def offered(self) -> int:
        return int(self.manager.ask(self._active())["Offered"].get(RESOURCE, 0))

    def _active(self) -> list[Any]:
        return [pod for pod in self.pods().values() if pod["status"]["phase"] in ("Pending", "Running")]

    def _serve(self, served: Served, pod: Mapping[str, Any]) -> str:
        said = self.manager.ask(self._active(), pod["metadata"]["uid"])
        for name, given in (said["Containers"] or {}).items():
            served.ids[name], served.environment[name] = tuple(given["IDs"]), given["Environment"]
        self._write()
        return str(said["Error"])
