# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""extender: how long kube-scheduler waits for it, for 100, 1,000 and 5,000 names of nodes, against a server of the same
kind that does nothing; what 5,000 nodes with 50,000 pods take of memory, and a pod that is bound of processor time.

The extender runs as it is deployed, from its zipapp, beside a fake of the cluster's API and Prometheus. Every question
is for another pod; meanwhile pods are bound and nodes are measured, as in a burst and five times as often as by
default. Both servers are asked in turn, in three runs; the best one counts, since whatever else the machine does only
makes a run slower.
"""

from __future__ import annotations

import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _extender_code
from ansible_collections.colocation.kubernetes.tests.bench._fake_cluster import FakeClusterProcess
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from colocation.common import status_client
from colocation.scheduler.server import Answer, ExtenderServer

NODES, PODS = 5000, 50_000
SIZES = (100, 1000, 5000)
RUNS, ROUNDS = 3, 1000  # for each size
MEASURE_SECONDS = 2  # between two rounds
KINDS = 8  # of pods, by what they ask for
EVENTS = 20_000
P50, P99 = 5.0, 15.0  # milliseconds
EMPTY = "--serve-nothing"
AGENTS = Path(_extender_code.__file__).parents[2] / "files" / "agents"


@dataclass(slots=True)
class Line:
    """A kept connection, as kube-scheduler has one."""

    socket: socket.socket

    def ask(self, request: bytes) -> float:
        """Milliseconds until the whole answer is here."""
        began = time.perf_counter()
        self.socket.sendall(request)
        got = self.socket.recv(1 << 20)
        while b"\r\n\r\n" not in got:
            got += self.socket.recv(1 << 20)
        head, _end, body = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        left = length - len(body)
        while left > 0:
            left -= len(self.socket.recv(1 << 20))
        took = (time.perf_counter() - began) * 1000
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"the answer is {head[:60]!r}")
        return took


def connect(port: int) -> Line:
    made = socket.create_connection(("127.0.0.1", port), 30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Line(made)


def question(number: int, names: bytes) -> bytes:
    """What kube-scheduler sends for a new pod."""
    pod = {
        "metadata": {"name": f"p{number}", "namespace": "d", "uid": f"u{number}", "labels": {"app": "web"}},
        "spec": {
            "schedulerName": "mem-real-usage-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"memory": f"{64 * (1 + number % KINDS)}Mi"}}}],
        },
    }
    body = b'{"Pod":' + json.dumps(pod).encode() + b',"Nodes":null,"NodeNames":' + names + b"}"
    head = (
        f"POST /prioritize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    return head.encode() + b"\r\n\r\n" + body


class Running:
    """The extender's process."""

    def __init__(self, place: Path, cluster: FakeClusterProcess) -> None:
        self.port, self.page = free_port(), free_port()
        config = place / "extender.yaml"
        config.write_text(
            f"kubeconfig: {place}/kubeconfig\nprometheusApiAddr: {cluster.address}\n"
            f"prometheus: {{ca_file: {cluster.ca}}}\nqueryMetricIntervalSeconds: {MEASURE_SECONDS}\n"
            f"listen: {{port: {self.port}}}\nstatus: {{port: {self.page}}}\n"
        )
        code = _extender_code.extender_code(AGENTS, place)
        self.log = place / "extender.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-EsB", code.path, "--config", str(config)], stdout=log, stderr=log
            )

    def facts(self) -> dict[str, object]:
        try:
            return dict(status_client.ask("127.0.0.1", self.page, 30).facts)
        except status_client.NoStatus:
            return {}

    def metric(self, name: str) -> float:
        with socket.create_connection(("127.0.0.1", self.page), 30) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def until(self, what: str, holds: Callable[[], bool], seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"not reached: {what}\n{self.log.read_text()[-2000:]}")
            time.sleep(1)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def latency(running: Running, cluster: FakeClusterProcess, empty: int) -> tuple[float, float]:
    """For each size, ours and the empty one in turn; the last size's p50 and p99."""
    ours, nothing = connect(running.port), connect(empty)
    print(
        f"{'names':>6} {'ours p50':>9} {'p99':>7} {'empty p50':>10} {'p99':>7}   milliseconds, the best of {RUNS} runs"
    )
    number = 0
    best = (0.0, 0.0)
    for size in SIZES:
        names = json.dumps(cluster.names[:size], separators=(",", ":")).encode()
        runs = []
        for _run in range(RUNS):
            times: tuple[list[float], list[float]] = ([], [])
            for turn in range(ROUNDS):
                number += 1
                if turn % 3 == 0:
                    cluster.binds(PODS + number)  # somebody else's pod; ours are seen only later
                asked = question(number, names)
                times[0].append(ours.ask(asked))
                times[1].append(nothing.ask(asked))
            runs.append((quantiles(times[0]), quantiles(times[1])))
        best, base = min(runs, key=lambda run: run[0][1])
        print(f"{size:6} {best[0]:9.2f} {best[1]:7.2f} {base[0]:10.2f} {base[1]:7.2f}")
    return best


def quantiles(times: list[float]) -> tuple[float, float]:
    cut = statistics.quantiles(times, n=100)
    return cut[49], cut[98]


def watch_cost(running: Running, cluster: FakeClusterProcess) -> float:
    """Milliseconds of processor time for a pod that is bound, beside what measuring takes."""
    seen = 'colocation_scheduler_watch_events_total{kind="pods"}'
    began, used = time.monotonic(), running.metric("process_cpu_seconds_total")
    time.sleep(10 * MEASURE_SECONDS)  # rounds of measuring, whose cost is not the watch's
    idle = (running.metric("process_cpu_seconds_total") - used) / (time.monotonic() - began)
    events, used, began = running.metric(seen), running.metric("process_cpu_seconds_total"), time.monotonic()
    cluster.binds(2 * PODS, EVENTS)
    running.until("all events are seen", lambda: running.metric(seen) >= events + EVENTS)
    spent = running.metric("process_cpu_seconds_total") - used - idle * (time.monotonic() - began)
    print(f"measuring {NODES} nodes: {idle * MEASURE_SECONDS:.2f} s of processor time for each round")
    return spent / EVENTS * 1000


def measure(place: Path) -> tuple[float, float]:
    cluster = FakeClusterProcess(place, NODES, PODS)
    nothing = subprocess.Popen([sys.executable, __file__, EMPTY], stdout=subprocess.PIPE, text=True)
    assert nothing.stdout is not None
    running = Running(place, cluster)
    try:
        running.until(
            "the cluster is known",
            lambda: (running.facts().get("nodes"), running.facts().get("pods")) == (NODES, PODS),
        )
        running.until("nodes are measured", lambda: running.metric("colocation_scheduler_measured_nodes") == NODES)
        began = running.metric("process_resident_memory_bytes") / (1 << 20)
        found = latency(running, cluster, int(nothing.stdout.readline()))
        cost = watch_cost(running, cluster)
        memory = running.metric("process_resident_memory_bytes") / (1 << 20)
        print(f"{NODES} nodes and {PODS} pods: {began:.0f} MiB when known, {memory:.0f} MiB after all this")
        print(f"a pod that is bound: {cost:.2f} ms of processor time")
        return found
    finally:
        running.stop()
        cluster.stop()
        nothing.kill()
        nothing.wait()


def serve_nothing() -> None:
    """A server of the same kind that has nothing to say."""
    server = ExtenderServer("127.0.0.1", 0, lambda _request: Answer(200, "[]"), lambda _status: None)
    server.start()
    print(server.port, flush=True)
    signal.pause()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-extender-") as folder:
        p50, p99 = measure(Path(folder))
    verdict = "PASS" if p50 <= P50 and p99 <= P99 else "FAIL"
    print(f"extender: {SIZES[-1]} names p50 {p50:.1f} ms, p99 {p99:.1f} ms (target ≤ {P50:g} / {P99:g} ms) {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(serve_nothing() if EMPTY in sys.argv else main())
