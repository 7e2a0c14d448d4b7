# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender as it is deployed: one file, run by python3 alone, asked over HTTP and by its commands."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _extender_code
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.contract.extender.some_cluster import SomeCluster, until
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.fake_prometheus import FakePrometheus
from colocation.common import status_client

AGENTS = Path(_extender_code.__file__).parents[2] / "files" / "agents"
BARE = {"PATH": os.environ["PATH"]}


class ExtenderProcess:
    """Runs until `stop`."""

    def __init__(self, place: Path, kubeconfig: Path, more: str) -> None:
        self.code = _extender_code.extender_code(AGENTS, place).path
        self.port, self.page = free_port(), free_port()
        self.file = place / "extender.yaml"
        self._base = f"kubeconfig: {kubeconfig}\nstatus: {{port: {self.page}}}\nqueryMetricIntervalSeconds: 1\n"
        self.configure(f"listen: {{port: {self.port}}}\n{more}")
        self._log = place / "extender.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*ENDS_WITH_US, *self._command("--config", str(self.file))], stdout=log, stderr=log, env=BARE
            )

    def configure(self, text: str) -> None:
        self.file.write_text(self._base + text)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-EsB", self.code, *words]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = self._command(*words, "--config", str(self.file))
        return subprocess.run(command, capture_output=True, text=True, env=BARE, check=False, timeout=60)

    def log(self) -> str:
        return self._log.read_text()

    def healthy(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return status_client.ask("127.0.0.1", self.page).healthy
        except status_client.NoStatus:
            return False

    def ask(self, path: str, document: Any = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            body = None if document is None else json.dumps(document)
            connection.request("GET" if document is None else "POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def scores(self, pod: dict[str, Any], *names: str) -> dict[str, int]:
        status, text = self.ask("/prioritize", {"Pod": pod, "Nodes": None, "NodeNames": names})
        assert status == 200, text
        return {one["Host"]: one["Score"] for one in json.loads(text)}

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(15)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def a_pod(name: str, scheduler: str = "mem-real-usage-scheduler") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"memory": "10Gi"}}}],
        },
    }


@pytest.fixture
def extender(
    some: SomeCluster, prometheus: FakePrometheus, kubeconfig: Path, tmp_path: Path
) -> Iterator[ExtenderProcess]:
    for name in "abc":
        some.node(name)
    prometheus.memory(a=30, b=50, c=97)
    prometheus.cpu(a=30, b=50, c=97)
    made = ExtenderProcess(tmp_path, kubeconfig, f"prometheusApiAddr: {prometheus.address}\nlog_decisions: true\n")
    until("it is healthy", made.healthy)
    yield made
    made.stop()


def test_a_life_of_the_extender(extender: ExtenderProcess, prometheus: FakePrometheus) -> None:
    assert extender.scores(a_pod("p1"), "a", "b", "c") == {"a": 10, "b": 4, "c": 0}
    assert extender.scores(a_pod("p2"), "a", "b", "c") == {"a": 10, "b": 4, "c": 0}
    assert "decision: scored pod=default/p1 profile=mem-real-usage-scheduler favourite=a load=0.4" in extender.log()
    assert extender.scores(a_pod("other", "default-scheduler"), "a") == {"a": 0}
    assert extender.ask("/prioritize", [])[0] == 400
    assert extender.ask("/prioritize")[0] == 405
    assert extender.ask("/nothing")[0] == 404
    status, text = extender.ask("/filter", {"Pod": a_pod("p4"), "NodeNames": ["a", "c"]})
    assert (status, json.loads(text)["NodeNames"]) == (200, ["a", "c"])
    explained(extender)
    reloaded(extender, prometheus)
    assert extender.stop() == 0


def explained(extender: ExtenderProcess) -> None:
    table = extender.command("explain", "--pod", "default/p1")
    assert table.returncode == 0, table.stderr
    assert "best then   a" in table.stdout
    assert "full" in next(line for line in table.stdout.splitlines() if line.startswith("  c  "))
    found = json.loads(extender.command("explain", "--profile", "real-usage-scheduler", "--json", "--node", "c").stdout)
    (one,) = found["nodes"]
    assert (one["node"], one["score"], one["load"]) == ("c", 0, None)
    assert [part["resource"] for part in one["inputs"]] == ["cpu", "memory"]
    first = json.loads(extender.ask("/explain?profile=real-usage-scheduler&most=1")[1])
    assert ([one["node"] for one in first["nodes"]], first["of"]) == (["a"], 3)
    assert extender.ask("/explain?profile=mem-real-usage-scheduler&most=x&format=text")[0] == 200
    assert extender.ask("//[")[0] == 404
    unknown = extender.command("explain", "--profile", "other")
    assert unknown.returncode == 1
    assert "There is no profile 'other'" in unknown.stderr
    nodes = "mem-real-usage-scheduler: the 3 fullest of 3 nodes"
    until("the page shows all nodes", lambda: nodes in extender.command("status").stdout)
    assert extender.command("status").returncode == 0
    metrics = page(extender, "/metrics")
    assert 'colocation_scheduler_decisions_total{profile="mem-real-usage-scheduler",result="favourite"} 2' in metrics
    assert (
        'colocation_scheduler_judged_nodes{profile="mem-real-usage-scheduler",resource="memory",by="use"} 3' in metrics
    )
    assert "default/p2" in page(extender, "/")


def page(extender: ExtenderProcess, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", extender.page, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def reloaded(extender: ExtenderProcess, prometheus: FakePrometheus) -> None:
    """A bad configuration changes nothing; a good one holds when the cluster is known anew, and nobody waits for it."""
    here = f"listen: {{port: {extender.port}}}\nprometheusApiAddr: {prometheus.address}\n"
    extender.configure(here + "profile: {}\n")
    extender.process.send_signal(signal.SIGHUP)
    until("it is refused", lambda: "did you mean" in extender.log())
    assert extender.scores(a_pod("p5"), "c") == {"c": 0}
    extender.configure(here + "profiles: {packed: {full_at: 1}}\n")
    extender.process.send_signal(signal.SIGHUP)

    def new_one_holds() -> bool:
        return extender.ask("/explain?profile=packed")[0] == 200

    until("the new one holds", new_one_holds)
    until("it has measured", extender.healthy)
    assert extender.scores(a_pod("p6", "packed"), "a", "c") == {"a": 10, "c": 0}


def test_what_is_wrong_with_the_command_or_the_file_is_said(tmp_path: Path) -> None:
    code = _extender_code.extender_code(AGENTS, tmp_path).path
    file = tmp_path / "extender.yaml"
    file.write_text("listen: {port: 0}\n")
    done = subprocess.run(
        [sys.executable, "-EsB", code, "--config", str(file), "--check-config"],
        capture_output=True,
        text=True,
        env=BARE,
        check=False,
    )
    assert done.returncode == 78
    assert "extender.yaml:1: listen.port: must be between 1 and 65535, not 0" in done.stderr
    file.write_text("")
    silent = subprocess.run(
        [sys.executable, "-EsB", code, "--config", str(file), "explain", "--profile", "x"],
        capture_output=True,
        text=True,
        env=BARE,
        check=False,
    )
    assert silent.returncode == 2
    assert "does it run?" in silent.stderr
