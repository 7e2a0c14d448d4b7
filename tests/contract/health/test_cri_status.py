# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real containerd says by CRI how it is: with which driver it runs, and nothing in time where it hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import ask_runtime
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="containerd wants root")

CONFIG = """\
version = 2
root = "{place}/root"
state = "{place}/state"
{disabled}
[grpc]
  address = "{place}/s"
[ttrpc]
  address = "{place}/t"
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_dir = "{place}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = {systemd}
"""


class Daemon:
    """One containerd of its own."""

    def __init__(self, program: Path, place: Path) -> None:
        self.program = program
        self.place = place
        self.socket = str(place / "s")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, systemd: bool, disabled: str = "") -> None:
        config = self.place / "config.toml"
        config.write_text(CONFIG.format(place=self.place, systemd=str(systemd).lower(), disabled=disabled))
        with (self.place / "log").open("wb") as log:
            command = [*ENDS_WITH_US, str(self.program), "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not Path(self.socket).exists():
            assert self.process.poll() is None and time.monotonic() < end, (self.place / "log").read_text()
            time.sleep(0.1)

    def hang(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        end = time.monotonic() + 10
        while any(") T " not in (thread / "stat").read_text() for thread in threads.iterdir()):
            assert time.monotonic() < end, "containerd does not stop"
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(30)
            self.process = None


@pytest.fixture
def daemon(containerd: Path) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="cri-", dir="/tmp") as place:  # short, for the socket
        made = Daemon(containerd, Path(place))
        try:
            yield made
        finally:
            made.stop()


@pytest.mark.parametrize("systemd", [True, False])
def test_the_driver_of_the_process_is_told(daemon: Daemon, systemd: bool) -> None:
    daemon.start(systemd)
    answer = ask_runtime(daemon.socket, 30)
    assert (answer.problem, answer.systemd_cgroup) == ("", systemd)
    conditions = {condition.type: condition for condition in answer.conditions}
    assert conditions["RuntimeReady"].status == "True"
    assert conditions["NetworkReady"].reason == "NetworkPluginNotReady"


def test_one_that_hangs_and_one_without_cri(daemon: Daemon) -> None:
    daemon.start(True)
    assert ask_runtime(daemon.socket, 30).problem == ""
    daemon.hang()
    began = time.monotonic()
    assert "did not answer within" in ask_runtime(daemon.socket, 1).problem
    assert time.monotonic() - began < 10
    daemon.stop()
    daemon.start(True, 'disabled_plugins = ["io.containerd.grpc.v1.cri"]')
    assert "unimplemented" in ask_runtime(daemon.socket, 2).problem
    daemon.stop()
    assert ask_runtime(daemon.socket, 0.1).problem
