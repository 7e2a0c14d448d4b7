# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The device plugin: 200,000 devices to a kubelet, beside the same list made of protobuf's own messages; one refresh of
the memory with 250 pods that hold blocks, beside one that reads every file of every pod; an allocation, beside a bare
call on the same socket; and what the agent holds in memory while it does that.

The kubelet is the tests' double, over real gRPC; the node is made of files.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.contract.agents import pod_resources_double
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import RESOURCE, uid
from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MIB, MadeNode
from colocation.common.metrics import Registry
from colocation.device_plugin import memory_readers, protocol
from colocation.device_plugin.cgroup_tree import PodTree
from colocation.device_plugin.devices import MOST_MESSAGE, Device, MockSource
from colocation.device_plugin.holders import Ledger
from colocation.device_plugin.kubelet_state import CHECKPOINT, KubeletState, Places
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_metrics import MemoryMetrics
from colocation.device_plugin.memory_source import MemorySource
from colocation.device_plugin.server import PluginServer

DEVICES = 200_000
PODS = 250
MOST_SEND, MOST_REFRESH, MOST_RESIDENT = 0.5, 0.010, 64 * MIB
MOST_ALLOCATE = {50: 2.0, 99: 3.0}  # of a bare call on the same socket, by percentile
BARE = "import grpc, time; print(1, flush=True); time.sleep(60)"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement against its target."""

    name: str
    value: str
    target: str
    good: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.value} (target {self.target}) {'good' if self.good else 'MISSED'}"


def median(do: Callable[[], object], rounds: int, clock: Callable[[], float]) -> float:
    """Seconds that one round takes."""
    taken = []
    for _round in range(rounds):
        began = clock()
        do()
        taken.append(clock() - began)
    return statistics.median(taken)


def naive(devices: tuple[Device, ...]) -> bytes:
    """The list as protobuf's messages make it."""
    message = protocol.MESSAGES["ListAndWatchResponse"]()
    for device in devices:
        message.devices.add(ID=device.id, health="Healthy" if device.healthy else "Unhealthy")
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def send(place: Path) -> list[Figure]:
    """Encode, and have the kubelet's side decode it all: the processor time of both, for others may be at work."""
    source = MockSource("mock.com/gpu", DEVICES)
    devices = source.devices(frozenset())
    ours, theirs = protocol.encode_devices(devices), naive(devices)
    if ours != theirs:
        raise SystemExit("the two lists differ")
    made = median(lambda: protocol.encode_devices(devices), 5, time.process_time)
    made_naive = median(lambda: naive(devices), 5, time.process_time)
    kubelet = KubeletDouble(place)
    kubelet.start()
    server = PluginServer(source, str(place / "bench.sock"), b"", lambda _ids: None)
    try:
        plugin = kubelet.dial("mock.com/gpu", "bench.sock", whole=False)
        until("the first list", lambda: plugin.lists)
        times, walls = [], []
        for number in range(5):
            began, began_wall = time.process_time(), time.perf_counter()
            server.offer.publish(protocol.encode_devices(devices[number:]))
            until("the list is there", lambda number=number: len(plugin.lists) == number + 2, 60)  # type: ignore[misc]
            times.append(time.process_time() - began)
            walls.append(plugin.arrived[-1] - began_wall)
    finally:
        server.stop()
        kubelet.stop()
    taken, wall = statistics.median(times), statistics.median(walls)
    print(f"encoding {DEVICES} devices: {made * 1000:.0f} ms of processor time, by messages {made_naive * 1000:.0f} ms")
    print(f"until they are at the kubelet: {wall * 1000:.0f} ms on this machine as it is now")
    return [
        Figure("list on the wire", f"{len(ours) / MIB:.2f} MiB", "≤ 4 MiB", len(ours) <= MOST_MESSAGE),
        Figure(
            "encoded and received", f"{taken * 1000:.0f} ms", f"≤ {MOST_SEND * 1000:.0f} ms of CPU", taken <= MOST_SEND
        ),
    ]


class FullNode:
    """A node whose 250 pods all hold two blocks, and its kubelet's two ways to say so, from a process of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.node = MadeNode(place)
        self.node.memory(1024 * GIB, 512 * GIB)
        for number in range(PODS):
            self.node.pod(uid(number), GIB // 2)
        self.settings = self.node.settings()
        command = [sys.executable, pod_resources_double.__file__, str(place), str(PODS)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._double = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert self._double.stdout is not None
        self._double.stdout.readline()
        self.places = Places(str(place / "pod-resources.sock"), str(place / CHECKPOINT))

    def close(self) -> None:
        self._double.terminate()
        self._double.wait()


def refresh(full: FullNode) -> list[Figure]:
    """Processor time of one refresh, with all that the agent does in it."""
    ledger, tree = Ledger(), PodTree(str(full.node.root))
    source = MemorySource(RESOURCE, Memory(**full.settings), MemoryMetrics(Registry()), str(full.node.root))  # type: ignore[arg-type]
    kubelet = KubeletState(full.places, ledger)
    clock = iter(range(1_000_000))

    def once() -> None:
        now = float(next(clock))
        tree.refresh(now)
        kubelet.refresh([RESOURCE], tree.lives, "one", now)
        held = ledger.ids(RESOURCE)
        source.refresh(ledger.holders(RESOURCE), held, tree.pods, tree.kubepods, now)
        source.devices(held)

    def simple() -> None:
        """As one would first write it: every file of every group, and the checkpoint each time."""
        json.loads(Path(full.places.checkpoint).read_text())
        for directory, _below, files in os.walk(full.node.root):
            for file in files:
                content = Path(directory, file).read_bytes()
                if file == "memory.stat":
                    memory_readers.stat(content)

    once()
    snapshot = source.snapshot
    if snapshot is None or [holder.used for holder in snapshot.holders] != [GIB // 2] * PODS:
        raise SystemExit(f"the refresh does not see the {PODS} pods: {kubelet.told}")
    try:
        ours, base = median(once, 50, time.process_time), median(simple, 20, time.process_time)
    finally:
        kubelet.close()
    print(f"one refresh with {PODS} pods: {ours * 1000:.1f} ms of processor time, the simple way {base * 1000:.1f} ms")
    return [Figure("refresh", f"{ours * 1000:.1f} ms", f"≤ {MOST_REFRESH * 1000:.0f} ms of CPU", ours <= MOST_REFRESH)]


def agent(full: FullNode, place: Path) -> list[Figure]:
    """The whole agent on that node: its memory, and how long an allocation takes beside the smallest call."""
    kubelet = KubeletDouble(place)
    kubelet.start()
    settings = json.dumps(full.settings)
    config = f"kubelet_dir: {place}\npod_resources_socket: {full.places.pod_resources}\n"
    config += f"cgroup_root: {full.node.root}\nrefresh_seconds: 0.2\n"
    config += f"reclaim: {{enforce: false}}\nmemory: {{{RESOURCE}: {settings}}}\n"
    (place / CHECKPOINT).write_bytes(Path(full.places.checkpoint).read_bytes())
    process = AgentProcess(full.place, config)
    try:
        until("the list is there", lambda: kubelet.watched(RESOURCE))
        (plugin,) = kubelet.watched(RESOURCE)
        until("the agent sees all pods", lambda: len(process.status().tables[2].rows) == PODS)
        free = [device for device, _health in plugin.lists[-1]][2 * PODS :]
        request = protocol.MESSAGES["AllocateRequest"](container_requests=[{"devices_ids": free[:3]}])
        content = request.SerializeToString()
        allocate, bare = [], []
        for _call in range(1000):  # by turns, for a machine is never the same for long
            allocate.append(seconds(lambda: plugin.call("Allocate", content)))
            bare.append(seconds(lambda: plugin.call("GetDevicePluginOptions", b"")))
        used = process.share_of_a_processor()
        resident = resident_bytes(process.process.pid)
        process.end()
    finally:
        process.close()
        kubelet.stop()
    shown, base = (
        f"p50 {percentile(t, 50) * 1000:.2f}, p99 {percentile(t, 99) * 1000:.2f} ms" for t in (allocate, bare)
    )
    print(f"an allocation: {shown}; the smallest call: {base}")
    print(f"the whole agent, looking at all of it once a second: {used:.1%} of a processor")
    print(f"resident: {resident / MIB:.1f} MiB, a Python that has only loaded gRPC {bare_resident() / MIB:.1f} MiB")
    times = {rank: percentile(allocate, rank) / percentile(bare, rank) for rank in MOST_ALLOCATE}
    return [
        *(
            Figure(
                f"Allocate p{rank}",
                f"{percentile(allocate, rank) * 1000:.2f} ms, {times[rank]:.2f} of a bare call",
                f"≤ {most:g} of a bare call",
                times[rank] <= most,
            )
            for rank, most in MOST_ALLOCATE.items()
        ),
        Figure("resident", f"{resident / MIB:.1f} MiB", f"≤ {MOST_RESIDENT // MIB} MiB", resident <= MOST_RESIDENT),
    ]


def bare_resident() -> int:
    """What a process has that loads the same interpreter and library, and does nothing."""
    with subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = resident_bytes(process.pid)
        process.kill()
    return found


def seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def percentile(values: list[float], rank: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * rank // 100)]


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> int:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-dp-", dir="/tmp") as folder:
        places = [Path(folder, name) for name in ("send", "node", "kubelet")]
        for place in places:
            place.mkdir()
        figures += send(places[0])
        full = FullNode(places[1])
        try:
            figures += refresh(full)
            figures += agent(full, places[2])
        finally:
            full.close()
    for figure in figures:
        print(f"  {figure}")
    verdict = "PASS" if all(figure.good for figure in figures) else "FAIL"
    values = ", ".join(f"{figure.name} {figure.value}" for figure in figures)
    print(f"device-plugin: {values} (target {', '.join(figure.target for figure in figures)}) {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
