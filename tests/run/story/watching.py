# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Measures while the story is told: one lasting shell on each node, and the API, each in a thread of its own.

Emulated nodes take a second for an ssh, so it is made once; where it breaks (a node restarts) it is made anew, and the
plot has a gap.
"""

from __future__ import annotations

import datetime
import json
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import readings
from .page import Happened
from .scene import Scene
from .steps import Trouble
from .workloads import PROFILE

PERIOD = 4
AGAIN_SECONDS = 3.0
EXTENDER = "/api/v1/namespaces/kube-system/services/http:schedulingplugin-mem-usage:status/proxy/status"
ON_NODE = f"""
import json, time, urllib.request
def read(path):
    try:
        return open(path).read()
    except OSError:
        return ""
def agent():
    try:
        with urllib.request.urlopen("http://127.0.0.1:9461/metrics", timeout=3) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return ""
    return "\\n".join(line for line in lines if line.startswith("colocation_memory_online_bytes"))
while True:
    seen = {{"agent": agent(), "meminfo": read("/proc/meminfo"), "pressure": read("/proc/pressure/memory")}}
    print(json.dumps(seen), flush=True)
    time.sleep({PERIOD})
"""


@contextmanager
def watching(scene: Scene) -> Iterator[None]:
    """Measure for the time of the block."""
    over = threading.Event()
    threads = [threading.Thread(target=_node, args=(scene, node, over), daemon=True) for node in scene.nodes]
    threads.append(threading.Thread(target=_api, args=(scene, over), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def _node(scene: Scene, node: str, over: threading.Event) -> None:
    while not over.is_set():
        with scene.lasting(["ssh", node, f"exec python3 -u -c {shlex.quote(ON_NODE)}"]) as process:
            ender = threading.Thread(target=_end_with, args=(process, over), daemon=True)
            ender.start()
            for line in process.stdout or ():
                _take(scene, node, line)
        over.wait(AGAIN_SECONDS)


def _end_with(process: Any, over: threading.Event) -> None:
    """End a process that its reader waits for."""
    while process.poll() is None:
        if over.wait(1.0):
            process.terminate()
            return


def _take(scene: Scene, node: str, line: bytes) -> None:
    try:
        seen = json.loads(line)
        values = readings.of_files(node, seen["meminfo"], seen["pressure"]) | readings.of_agent(node, seen["agent"])
    except (ValueError, KeyError, TypeError):
        return  # half a line of a shell that ended
    scene.record(values)


def _api(scene: Scene, over: threading.Event) -> None:
    while not over.is_set():
        for look in (_objects, _scores, _events):
            try:
                look(scene)
            except (Trouble, KeyError, TypeError, ValueError):
                continue  # the API restarts, or there is no extender: nothing was seen, and the plot has a gap
        over.wait(PERIOD)


def _objects(scene: Scene) -> None:
    nodes, pods = scene.api.get("/api/v1/nodes"), scene.api.get("/api/v1/pods")
    scene.record(readings.of_nodes(nodes) | readings.of_pods(pods, scene.nodes))


def _scores(scene: Scene) -> None:
    scene.record(readings.of_extender(scene.api.get(EXTENDER), PROFILE))


def _events(scene: Scene) -> None:
    """Keep what the agents tell the API about pods: a namespace that goes takes its Events along."""
    for event in scene.api.get("/api/v1/events").get("items", ()):
        found = happened(event, scene.began)
        if found is not None:
            scene.heard(*found)


def happened(event: Mapping[str, Any], began: float) -> tuple[str, Happened] | None:
    """What an Event of the device plugin about a pod says, under a name of its own; None for all others."""
    about, source = event["involvedObject"], event.get("source") or {}
    if source.get("component") != "colocation-device-plugin" or about.get("kind") != "Pod":
        return None
    stamp = datetime.datetime.fromisoformat(str(event["lastTimestamp"]).replace("Z", "+00:00"))
    at = stamp.timestamp() - began
    if at < -1:  # stamps are whole seconds
        return None
    message = f"{about.get('name')}: {event.get('message', '')}"
    key = f"{event['metadata']['uid']} {event.get('count')}"
    return key, Happened(at, str(source.get("host", "")), str(event["reason"]), message)
