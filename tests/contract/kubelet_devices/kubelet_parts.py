# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Parts of a real kubelet, built once: it writes checkpoints and serves PodResources (kubelet_parts.go)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract import go_program


def program() -> Path:
    """The built program; the first time takes minutes, for parts of a kubelet are compiled."""
    return go_program.program(Path(__file__).with_suffix(".go"))


def write_checkpoints(wanted: Sequence[dict[str, Any]], *mode: str) -> list[bytes]:
    """The files that a kubelet writes for these entries and registered devices; with mode `old` before 1.20."""
    done = subprocess.run(
        [program(), *mode], input=json.dumps(wanted).encode(), capture_output=True, check=True, timeout=60
    )
    files: list[str] = json.loads(done.stdout)
    return [file.encode() for file in files]


class PodResourcesDouble:
    """A kubelet's PodResources API with a fixed answer, by the kubelet's own gRPC library."""

    def __init__(self, socket: Path, answer: dict[str, Any]) -> None:
        self._process = subprocess.Popen([program(), "serve", socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(answer).encode())
        self._process.stdin.close()
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
