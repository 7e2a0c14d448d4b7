# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node's day in minutes: its kubelet starts and ends pods, many at a time, while services of the node are restarted
and killed. Pods, deeds and their order come from the seed, so that two runs differ by nothing but the node.

Prints how it went as JSON: the pods that did not get up and why, how long starts took, and who stays for a look.
"""

from __future__ import annotations

import argparse
import collections
import json
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LIMIT = 300.0  # seconds after which a pod that is not up, or not gone, has failed
STAYING = 5  # pods that are left in the end
SEED = 9  # its first four deeds are of all kinds and to all services
LABEL = "cri-proxy/day"
SERVICES = ("kubelet", "containerd", "cri-resource-manager")
DEEDS = ("restart", "kill --signal=KILL --kill-whom=main")
SEEN = "|".join(
    (
        "{.type}",
        "{.object.metadata.name}",
        "{.object.status.phase}",
        '{.object.status.conditions[?(@.type=="Ready")].status}',
        "{.object.status.containerStatuses[*].restartCount}",
    )
)


@dataclass(slots=True)
class Pod:
    """One pod's life."""

    name: str
    manifest: dict[str, Any]
    pause: float  # how long it lives after it got up; for ever where negative
    begun: float = 0.0
    told: bool = False  # by the API
    up: float = 0.0
    ending: float = 0.0
    restarts: int = 0


@dataclass(slots=True)
class Day:
    """How it went."""

    cycles: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)  # until a pod was up
    restarts: int = 0
    deeds: list[str] = field(default_factory=list)


class Cluster:
    """Its administrator's kubectl, and a node."""

    def __init__(self, tool: str, name: str, node: str) -> None:
        self._kubectl = [tool, "kubectl", f"--name={name}"]
        self._ssh = [tool, "ssh", f"--name={name}", node]

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return subprocess.run(
            [*self._kubectl, *words], input=stdin, check=True, stdout=subprocess.PIPE, text=True, timeout=120
        ).stdout

    def names(self) -> set[str]:
        words = ["get", "pods", f"--selector={LABEL}", "--output=jsonpath={.items[*].metadata.name}"]
        return set(self.kubectl(*words).split())

    def watch(self) -> subprocess.Popen[str]:
        words = ["get", "pods", f"--selector={LABEL}", "--watch", "--output-watch-events"]
        command = [*self._kubectl, *words, f"--output=jsonpath={SEEN}" + '{"\\n"}']
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def on_node(self, *words: str) -> None:
        subprocess.run([*self._ssh, *words], check=True, stdin=subprocess.DEVNULL, timeout=120)


def pods(name: str, count: int, staying: int, node: str, seed: int) -> list[Pod]:
    """What is started: one or two containers of any size; every fifth pod ends by itself, the last ones stay.

    None has the policy Never: a kubelet that is started anew, or loses its runtime, between making such a pod's
    container and starting it leaves the pod so for ever, with the proxy or without (1.36; it befell five of 500 pods).
    """
    draw = random.Random(f"{name} {seed}")
    made = []
    for number in range(count + staying):
        stays = number >= count
        ends = draw.random() < 0.2 and not stays
        containers = [
            {
                "name": f"c{place}",
                "image": "colocation.test/workload:1",
                "imagePullPolicy": "Never",
                "command": ["/bin/sleep", "1" if ends else "2147483647"],
                "resources": {"requests": {"cpu": "20m"}},
            }
            for place in range(draw.choice((1, 1, 2)))
        ]
        annotations = {"cri-resmgr/cpus": draw.choice(("0.1", "1", "2", "3", "5", "8"))}
        pause = draw.choice((0.0, 1.0, 5.0))
        spec = {
            "nodeName": node,
            "hostNetwork": draw.random() < 0.7,  # else CNI's programs take their part in it, and a third of the time
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "OnFailure" if ends else "Always",
            "containers": containers,
        }
        metadata = {"name": f"{name}-{number}", "labels": {LABEL: "yes"}, "annotations": annotations}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made.append(Pod(f"{name}-{number}", manifest, -1.0 if stays else pause))
    return made


def deeds(units: Sequence[str], seed: int) -> list[str]:
    """What befalls the node, in order: the same for the same seed, without those of services that are not there."""
    draw = random.Random(seed)
    drawn = [(draw.choice(DEEDS), draw.choice(SERVICES)) for _deed in range(1000)]
    return [f"systemctl {deed} {unit}.service" for deed, unit in drawn if unit in units]


class Events:
    """What the API tells of our pods, as it comes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._watch()

    def next(self, seconds: float) -> list[str] | None:
        """Type, name, phase, readiness and restarts."""
        try:
            return self._lines.get(timeout=seconds).split("|")
        except queue.Empty:
            return None

    def again(self) -> set[str] | None:
        """Where the watch has ended, as the API server lets it after half an hour or more: begin another, which tells
        of all pods first, and say who is there."""
        if self._reader.is_alive() or not self._lines.empty():
            return None
        self._watch()
        return self._cluster.names()

    def close(self) -> None:
        self._process.terminate()
        self._reader.join()

    def _watch(self) -> None:
        self._process = self._cluster.watch()
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        with process:
            for line in process.stdout or ():
                self._lines.put(line.rstrip("\n"))


class Life:
    """A day, turn by turn."""

    def __init__(self, cluster: Cluster, waiting: Sequence[Pod], flying: int) -> None:
        self.day = Day()
        self._cluster = cluster
        self._waiting = collections.deque(waiting)
        self._most = flying
        self._alive: dict[str, Pod] = {}
        self._deed: threading.Thread | None = None

    def live(self, deeds: Sequence[str], every: int) -> Day:
        """Until all have come, and all but those who stay have gone."""
        events, plan = Events(self._cluster), iter(deeds)
        try:
            while self._waiting or any(pod.pause >= 0 for pod in self._alive.values()):
                self._begin()
                event = events.next(0.5)
                while event is not None:
                    self._see(event)
                    event = events.next(0)
                self._missed(events.again())
                self._end()
                if deeds and self.day.cycles >= every * (len(self.day.deeds) + 1):
                    self._do(plan)
            while any(not pod.up and not is_late(pod.begun) for pod in self._alive.values()):
                event = events.next(1)
                if event is not None:
                    self._see(event)
                self._missed(events.again())
        finally:
            events.close()
            if self._deed is not None:
                self._deed.join()
        for pod in self._alive.values():
            if not pod.up:
                self.day.failed[pod.name] = "it did not get up"
        return self.day

    def _begin(self) -> None:
        room = self._most - sum(pod.pause >= 0 or not pod.up for pod in self._alive.values())
        new = [self._waiting.popleft() for _pod in range(min(room, len(self._waiting)))]
        if new:
            listed = {"apiVersion": "v1", "kind": "List", "items": [pod.manifest for pod in new]}
            for pod in new:
                pod.begun = time.monotonic()
                self._alive[pod.name] = pod
            self._cluster.kubectl("create", "--filename=-", stdin=json.dumps(listed))

    def _see(self, event: list[str]) -> None:
        kind, name, phase, ready, restarts = event
        pod = self._alive.get(name)
        if pod is None:
            return
        now = time.monotonic()
        if not pod.told:
            pod.told, pod.begun = True, now
        pod.restarts = sum(int(count) for count in restarts.split())
        if not pod.up and (ready == "True" or phase == "Succeeded"):
            pod.up = now
            self.day.seconds.append(now - pod.begun)
        if phase == "Failed" and not pod.ending:
            self.day.failed[name] = "it failed"
        if kind == "DELETED":
            self._gone(pod)

    def _missed(self, there: set[str] | None) -> None:
        """Pods that went while nobody watched."""
        for pod in list(self._alive.values()) if there is not None else ():
            if pod.told and pod.name not in there:
                self._gone(pod)

    def _gone(self, pod: Pod) -> None:
        del self._alive[pod.name]
        self.day.cycles += 1
        self.day.restarts += pod.restarts

    def _end(self) -> None:
        now = time.monotonic()
        ending = []
        for pod in self._alive.values():
            late = not pod.up and is_late(pod.begun)
            if late:
                self.day.failed[pod.name] = "it did not get up"
            if pod.pause >= 0 and not pod.ending and (late or (pod.up and now >= pod.up + pod.pause)):
                pod.ending = now
                ending.append(pod.name)
            elif pod.ending and is_late(pod.ending):
                raise SystemExit(f"{pod.name} does not go")
        if ending:
            self._cluster.kubectl("delete", "pod", *ending, "--wait=false")

    def _do(self, plan: Iterator[str]) -> None:
        if self._deed is not None and self._deed.is_alive():
            return
        deed = next(plan)
        self.day.deeds.append(deed)
        self._deed = threading.Thread(target=self._befall, args=(deed,))
        self._deed.start()

    def _befall(self, deed: str) -> None:
        try:
            self._cluster.on_node(*deed.split())
        except subprocess.SubprocessError as problem:
            self.day.failed[deed] = f"it was not done: {problem}"


def is_late(since: float) -> bool:
    return time.monotonic() > since + LIMIT


def warnings(cluster: Cluster) -> dict[str, int]:
    """What the kubelet complained of, and how often."""
    told = cluster.kubectl("get", "events", "--field-selector=type=Warning", "--output=json")
    counts: collections.Counter[str] = collections.Counter()
    for event in json.loads(told)["items"]:
        if event["involvedObject"]["name"].startswith(("calm-", "day-")):
            counts[event["reason"]] += event.get("count") or 1
    return dict(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the program cluster")
    parser.add_argument("--name", required=True, help="which cluster")
    parser.add_argument("--node", default="worker1")
    parser.add_argument("--calm", type=int, default=3, help="pods that come and go one by one, in peace")
    parser.add_argument("--cycles", type=int, default=40, help="pods that come and go after that")
    parser.add_argument("--flying", type=int, default=6, help="pods at a time")
    parser.add_argument("--every", type=int, default=3, help="pods between two deeds; 0 for none")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--units", nargs="*", default=SERVICES, help="the services that are there")
    asked = parser.parse_args()
    cluster = Cluster(asked.tool, asked.name, asked.node)
    began = time.monotonic()
    calm = Life(cluster, pods("calm", asked.calm, 0, asked.node, asked.seed), 1).live([], 0)
    coming = pods("day", asked.cycles, STAYING, asked.node, asked.seed)
    plan = deeds(asked.units, asked.seed) if asked.every else []
    day = Life(cluster, coming, asked.flying).live(plan, asked.every)
    result = {
        "cycles": calm.cycles + day.cycles,
        "failed": calm.failed | day.failed,
        "restarts": calm.restarts + day.restarts,
        "warnings": warnings(cluster),
        "deeds": day.deeds,
        "calm_start": round(statistics.median(calm.seconds or [0]), 2),
        "start": round(statistics.median(day.seconds), 2),
        "longest_start": round(max(day.seconds), 2),
        "seconds": round(time.monotonic() - began),
        "staying": [pod.name for pod in coming if pod.pause < 0],
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
