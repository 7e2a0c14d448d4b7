# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests import ports

ASK = "import ports, sys; print(*(ports.free_port() for _n in range(200)), flush=True); sys.stdin.read()"


def test_processes_that_ask_at_the_same_time_get_different_ports() -> None:
    def asking() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", ASK],
            cwd=Path(ports.__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with asking() as one, asking() as two, asking() as three:
        got: list[str] = []
        for process in (one, two, three):
            assert process.stdout and process.stdin
            got += process.stdout.readline().split()
        for process in (one, two, three):
            assert process.stdin
            process.stdin.close()
    assert len(set(got)) == 600


def test_none_is_what_the_kernel_gives_to_connections() -> None:
    first_of_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(ports.free_port() < first_of_kernel for _n in range(100))


def test_a_port_at_which_somebody_listens_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ports.free_port()
    with socket.create_server(("127.0.0.1", ports.free_port())) as listener:
        monkeypatch.setattr(ports, "_ports", iter([listener.getsockname()[1], free]))
        assert ports.free_port() == free
