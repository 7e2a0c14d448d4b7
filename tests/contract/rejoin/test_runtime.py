# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real containerd understands what stops pods. No container can be started here; the scenario in VMs does that."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import ContainerRuntime, RuntimeSilent
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US

CONFIG = """
version = 2
root = "{place}/root"
state = "{place}/state"
[grpc]
  address = "{place}/sock"
"""


def test_containerd_is_asked_and_told(containerd: Path, containerd_version: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(place=tmp_path))
    runtime = ContainerRuntime(str(tmp_path / "sock"))
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen([*ENDS_WITH_US, containerd, "-c", tmp_path / "config.toml"], stdout=log, stderr=log)
    try:
        _wait_until_it_answers(runtime, tmp_path / "log")
        assert runtime.version().startswith(f"containerd {containerd_version}")
        assert (runtime.sandboxes(), runtime.running()) == ([], [])
        runtime.stop_container("nobody", 7)
        runtime.stop_sandbox("nowhere")
    finally:
        daemon.terminate()
        daemon.wait()
    said = (tmp_path / "log").read_text()
    assert 'StopContainer for \\"nobody\\" with timeout 7' in said
    assert 'StopPodSandbox for \\"nowhere\\"' in said


def _wait_until_it_answers(runtime: ContainerRuntime, log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            runtime.version()
            return
        except RuntimeSilent as problem:
            assert time.monotonic() < end, f"{problem}\n{log.read_text()}"
            time.sleep(0.1)
