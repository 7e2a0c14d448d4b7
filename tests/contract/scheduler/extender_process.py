# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender as it is deployed, from its zipapp, and a kube-scheduler with the configuration that the role writes."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _extender_code
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import (
    Program,
    SchedulerProcess,
    admin_file,
)
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from ansible_collections.colocation.kubernetes.tests.role_rendering import Rendered

AGENTS = Path(_extender_code.__file__).parents[2] / "files" / "agents"


def rendered(server: ApiServer, **said: Any) -> Rendered:
    """The role's variables for a scheduler that runs on this machine as the administrator."""
    from_outside = {
        "clientConnection": {"kubeconfig": str(admin_file(server))},
        "leaderElection": {"leaderElect": False},
    }
    cluster = {"version": "", "minor": int(server.minor.partition(".")[2]), "image_repository": "", "nodes": []}
    cluster["service_address"] = "https://10.96.0.1:443"
    ports = {"scheduler_extender_port": free_port(), "scheduler_status_port": free_port()}
    return Rendered(
        "scheduler",
        __scheduler_cluster=cluster,
        **{"scheduler_kube_scheduler_config": from_outside, **ports, **said},
    )


class ExtenderProcess(Program):
    """Runs until `stop`; `start` runs it again on the same ports."""

    def __init__(self, server: ApiServer, place: Path, role: Rendered) -> None:
        code = _extender_code.extender_code(AGENTS, place)
        config = place / "extender.yaml"
        config.write_text(json.dumps(role["__scheduler_extender_settings"] | {"kubeconfig": str(admin_file(server))}))
        self.port = role["scheduler_status_port"]
        self._command = [sys.executable, "-EsB", code.path, f"--config={config}"]
        super().__init__(self._command, place / "extender.log")

    def start(self) -> None:
        super().__init__(self._command, self.log)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/status"))
        return found

    def measures(self, nodes: int) -> bool:
        """Whether it is healthy and has measured so many nodes."""
        assert self.process.poll() is None, f"the extender ended:\n{self.last()}"
        try:
            return self.get("/healthz") == "ok\n" and f"{nodes} of {nodes} nodes" in self.status()["summary"]
        except (OSError, urllib.error.URLError):
            return False

    def until_measured(self, nodes: int) -> None:
        wait_until("the extender", lambda: self.measures(nodes), 60, self.last)


def scheduler_with(server: ApiServer, place: Path, role: Rendered, name: str = "ours") -> SchedulerProcess:
    """A kube-scheduler with what the role writes for it."""
    return SchedulerProcess(server, place, name, role["__scheduler_config_yaml"])
