# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Both ends of the CRI with Kubernetes' own API and gRPC library, built once (cri_parts.go)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.contract import go_program


def program() -> Path:
    """The built program; the first time takes a minute."""
    return go_program.program(Path(__file__).with_suffix(".go"))


class RuntimeDouble:
    """A runtime that runs nothing, on a socket."""

    def __init__(self, socket: Path) -> None:
        self._process = subprocess.Popen([program(), "serve", socket], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
