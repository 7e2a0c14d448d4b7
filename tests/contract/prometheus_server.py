# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real Prometheus on loopback: the machine's own, or Debian's package unpacked into the cache, not installed.

(Installing it would start a service on the machine.) The node exporter comes with it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.contract.debian_programs import unpacked
from ansible_collections.colocation.kubernetes.tests.ports import free_port

PACKAGES = ("prometheus", "prometheus-node-exporter")
BROUGHT = "usr/bin"


def program(name: str = "prometheus") -> Path:
    """`prometheus`, `promtool` or `prometheus-node-exporter`."""
    if found := shutil.which(name):
        return Path(found)
    return unpacked("prometheus/debian-with-exporter", PACKAGES) / BROUGHT / name


class PrometheusServer:
    """Runs until `stop`; `config` and `rules` are the texts of its files."""

    def __init__(self, place: Path, config: str, rules: str = "") -> None:
        (place / "prometheus.yml").write_text(config)
        (place / "rules.yml").write_text(rules or "groups: []\n")
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._log = place / "prometheus.log"
        command = [
            str(program()), f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([*ENDS_WITH_US, *command], stdout=log, stderr=log)

    def until_ready(self) -> None:
        wait_until("Prometheus", self._ready, 60, lambda: self._log.read_text()[-2000:])

    def reload(self, config: str) -> None:
        """Another configuration; it is read a moment later."""
        (self._log.parent / "prometheus.yml").write_text(config)
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        self.process.kill()  # its data go with the test
        self.process.wait()

    def _ready(self) -> bool:
        assert self.process.poll() is None, f"Prometheus ended:\n{self._log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
