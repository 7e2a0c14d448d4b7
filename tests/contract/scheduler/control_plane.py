# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Real kube-scheduler and kube-controller-manager beside a real API server, as processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import binary, kubernetes
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.ports import free_port

CONTROLLERS = (
    "deployment-controller,replicaset-controller,garbage-collector-controller,serviceaccount-controller,"
    "root-ca-certificate-publisher-controller,disruption-controller,clusterrole-aggregation-controller"
)


def client(server: ApiServer) -> KubeClient:
    """The administrator's."""
    return KubeClient(find_access({"kubeconfig": server.kubeconfig()}))


class Program:
    """A process that is ended with its test, and its log."""

    def __init__(self, command: Sequence[str | Path], log: Path, more: Mapping[str, str] | None = None) -> None:
        self.log = log
        environment = {**os.environ, **(more or {})}
        with log.open("ab") as stream:
            self.process = subprocess.Popen([*ENDS_WITH_US, *command], stdout=stream, stderr=stream, env=environment)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def last(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class SchedulerProcess(Program):
    """kube-scheduler with a configuration, or with its own defaults."""

    def __init__(self, server: ApiServer, place: Path, name: str, configuration: str = "", *more: str) -> None:
        self.port = free_port()
        config = place / f"{name}.yaml"
        config.write_text(configuration)
        arguments = [f"--config={config}"] if configuration else [f"--kubeconfig={admin_file(server)}", *more]
        super().__init__(
            [
                binary(kubernetes(server.minor), "kube-scheduler"), *arguments, f"--secure-port={self.port}",
                "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/*",
                f"--authentication-kubeconfig={admin_file(server)}", f"--authorization-kubeconfig={admin_file(server)}",
            ],
            place / f"{name}.log",
        )  # fmt: skip

    def get(self, path: str) -> str:
        """What it says of itself; its certificate is its own."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}{path}", timeout=10, context=context) as answer:
            text: str = answer.read().decode()
        return text

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"kube-scheduler ended:\n{self.last()}"
        try:
            return bool(self.get("/readyz"))
        except OSError:
            return False

    def until_ready(self) -> None:
        wait_until("kube-scheduler", self.is_ready, 60, self.last)


def admin_file(server: ApiServer) -> Path:
    """The administrator's kubeconfig as a file."""
    path = server.place / "admin-of-tests.json"
    if not path.exists():
        path.write_text(json.dumps(server.kubeconfig()))
    return path


def controller_manager(server: ApiServer, place: Path) -> Program:
    """The controllers of workloads, of accounts and of the garbage."""
    return Program(
        [
            binary(kubernetes(server.minor), "kube-controller-manager"), f"--kubeconfig={admin_file(server)}",
            f"--controllers={CONTROLLERS}", "--leader-elect=false", f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1", f"--root-ca-file={server.ca_file}",
            f"--service-account-private-key-file={server.place}/accounts.pem",
            f"--authentication-kubeconfig={admin_file(server)}", f"--authorization-kubeconfig={admin_file(server)}",
        ],
        place / "kube-controller-manager.log",
    )  # fmt: skip
