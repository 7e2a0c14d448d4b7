# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""cri-proxy: what the relay adds to a call, beside the relay that anybody would write with grpcio.

The runtime is Kubernetes' API on Go's gRPC library and answers at once, which no real one does. It is called by Go's
library, as the kubelet does, and by grpcio. The four ways (direct, ours, ours as a plain pipe, grpc.aio) take turns in
short rounds; each figure is the median of its rounds. A direct call from Go takes so little here that the passage
through any other process is a large share of it, so the targets are shares of grpcio's calls, like the figures that
they come from. What is added to Go's call has to keep to the same time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.contract.cri_proxy.cri_parts import RuntimeDouble, program

HERE = Path(__file__).parent
AGENTS = HERE.parents[1] / "files" / "agents"
KINDS = ("direct", "ours", "plain", "aio")
P50_TARGET, P99_TARGET, LARGE_TARGET, MEMORY_TARGET = 0.5, 1.0, 1.15, 40.0
CLIENTS: dict[str, list[str | Path]] = {
    "Go": [program(), "measure"],
    "grpcio": [sys.executable, HERE / "_cri_client.py"],
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(AGENTS), os.environ.get("PYTHONPATH", "")])}


@dataclass(frozen=True, slots=True)
class Load:
    """What is called, and how often."""

    client: str
    call: str
    size: int
    flying: int
    calls: int
    rounds: int

    @property
    def name(self) -> str:
        size = f" {self.size // 1024} KiB" if self.size >= 1024 else ""
        return f"{self.client}: {self.call}{size}{f', {self.flying} at a time' if self.flying > 1 else ''}"


LOADS = (
    Load("Go", "Version", 0, 1, 100, 25),
    Load("Go", "ListContainers", 1 << 10, 1, 100, 15),
    Load("Go", "ListContainers", 100 << 10, 1, 40, 15),
    Load("Go", "ListContainers", 1 << 20, 1, 10, 25),
    Load("Go", "CreateContainer", 4 << 10, 1, 50, 15),
    Load("Go", "Version", 0, 16, 400, 10),
    Load("Go", "ListContainers", 100 << 10, 16, 100, 8),
    Load("grpcio", "Version", 0, 1, 100, 25),
    Load("grpcio", "ListContainers", 1 << 10, 1, 100, 15),
    Load("grpcio", "ListContainers", 1 << 20, 1, 10, 25),
)
GO_UNARY, UNARY, LARGE = LOADS[0], LOADS[7], LOADS[9]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way, in microseconds: medians over the rounds."""

    p50: float
    p99: float
    per_second: float


class Relay:
    """A relay's process."""

    def __init__(self, kind: str, runtime: str, path: str) -> None:
        command: list[str | Path] = [sys.executable, HERE / "_cri_relays.py", kind, runtime, path]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            raise SystemExit(f"the relay {kind} does not start")

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def memory(self) -> float:
        """Resident MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def measure(load: Load, sockets: Sequence[str]) -> list[Figures]:
    """One load on every way, in turns."""
    wanted = {
        "Sockets": sockets,
        "Call": load.call,
        "Bytes": load.size,
        "Flying": load.flying,
        "Calls": load.calls,
        "Rounds": load.rounds,
    }
    command = CLIENTS[load.client]
    done = subprocess.run(
        command, input=json.dumps(wanted), capture_output=True, check=False, env=ENVIRONMENT, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{load.name}: {done.stderr}")
    found = json.loads(done.stdout)
    return [figures(times, found["Seconds"][way], load.calls) for way, times in enumerate(found["Nanoseconds"])]


def figures(times: list[int], seconds: list[float], calls: int) -> Figures:
    rounds = [sorted(times[at : at + calls]) for at in range(0, len(times), calls)]
    middle = statistics.median(one[calls // 2] for one in rounds) / 1000
    high = statistics.median(one[min(calls * 99 // 100, calls - 1)] for one in rounds) / 1000
    return Figures(middle, high, statistics.median(calls / one for one in seconds))


def show(load: Load, ways: Sequence[Figures], cpu: Sequence[float]) -> None:
    print(f"\n{load.name}")
    direct = ways[0]
    for kind, way, seconds in zip(KINDS, ways, (0.0, *cpu), strict=True):
        added = f"adds {way.p50 - direct.p50:5.0f} / {way.p99 - direct.p99:6.0f} µs" if kind != "direct" else ""
        share = (
            f"{(way.p50 - direct.p50) / direct.p50:5.2f} / {(way.p99 - direct.p99) / direct.p50:5.2f}" if added else ""
        )
        cost = f"{seconds * 1e6 / (load.calls * (load.rounds + 1)):6.0f} µs of CPU" if added else ""
        times = f"p50 {way.p50:6.0f} µs  p99 {way.p99:6.0f} µs  {way.per_second:6.0f}/s"
        print(f"  {kind:7} {times}  {added:26} {share:14} {cost}".rstrip())


def run(place: Path) -> tuple[dict[Load, list[Figures]], float]:
    """All loads; their figures, and our memory after them."""
    runtime = RuntimeDouble(place / "direct")
    relays: list[Relay] = []
    try:
        for kind in KINDS[1:]:
            relays.append(Relay(kind, str(place / "direct"), str(place / kind)))
        results = {}
        for load in LOADS:
            before = [relay.cpu() for relay in relays]
            results[load] = measure(load, [str(place / kind) for kind in KINDS])
            show(load, results[load], [relay.cpu() - cpu for relay, cpu in zip(relays, before, strict=True)])
        memory = [relay.memory() for relay in relays]
        listed = ", ".join(f"{kind} {size:.1f}" for kind, size in zip(KINDS[1:], memory, strict=True))
        print(f"\nresident after all that, MiB: {listed}")
        return results, memory[0]
    finally:
        for relay in relays:
            relay.stop()
        runtime.stop()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-cri-", dir="/tmp") as folder:
        results, memory = run(Path(folder))
    direct, ours, *_others = results[UNARY]
    p50, p99 = (ours.p50 - direct.p50) / direct.p50, (ours.p99 - direct.p99) / direct.p50
    go = (results[GO_UNARY][1].p50 - results[GO_UNARY][0].p50) / direct.p50
    large = results[LARGE][1].p50 / results[LARGE][0].p50
    good = max(p50, go) <= P50_TARGET and p99 <= P99_TARGET and large <= LARGE_TARGET and memory <= MEMORY_TARGET
    print(
        f"cri-proxy: adds {p50:.2f} × p50 ({go:.2f} × for Go) and {p99:.2f} × at p99, 1 MiB in {large:.2f} ×, "
        f"{memory:.1f} MiB (target ≤ {P50_TARGET} ×, ≤ {P99_TARGET} ×, ≤ {LARGE_TARGET} ×, ≤ {MEMORY_TARGET:.0f} MiB) "
        f"{'PASS' if good else 'FAIL'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
