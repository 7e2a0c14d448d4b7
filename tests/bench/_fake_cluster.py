# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A fake of an API server and a Prometheus of a large cluster, which takes minutes to make with real ones.

Lists come in pages, watches are held open and get the events that the benchmark asks for, queries get a value for each
node. It is a process of its own, so that what it does is not on the benchmark's clock.
"""

from __future__ import annotations

import json
import queue
import random
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Authority

IMAGES = [{"names": [f"registry.example/image-{n}@sha256:{n:064}"], "sizeBytes": 10_000_000 + n} for n in range(50)]


def node(name: str) -> dict[str, Any]:
    size = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    status = {"capacity": size, "allocatable": size, "images": IMAGES, "addresses": []}
    return {"metadata": {"name": name, "resourceVersion": "1"}, "status": status}


def pod(number: int, where: str, phase: str = "Running") -> dict[str, Any]:
    """About as large as pods are."""
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    environment = [{"name": f"VARIABLE_{n}", "value": "a value of some length " * 2} for n in range(12)]
    container = {"name": "web", "image": "registry.example/web:1", "resources": resources, "env": environment}
    owner = {"kind": "ReplicaSet", "name": f"web-{number // 50}-5d4f", "controller": True}
    return {
        "metadata": {
            "name": f"web-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"0f3c9d2a-{number:012}",
            "resourceVersion": str(100 + number),
            "labels": {"app": "web", "pod-template-hash": "5d4f"},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": where, "schedulerName": "default-scheduler", "containers": [container] * 2},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    }


class FakeCluster(ThreadingHTTPServer):
    """So many nodes, so many pods on them."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, place: Path, nodes: int, pods: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        authority = Authority(place)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("api"))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.ca = authority.certificate
        self.address = f"https://127.0.0.1:{self.server_address[1]}"
        self.names = [f"node-{number:05}" for number in range(nodes)]
        self.pods = pods
        self.events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def kubeconfig(self, file: Path) -> None:
        cluster = {"server": self.address, "certificate-authority": str(self.ca)}
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        file.write_text(json.dumps(document))

    def binds(self, number: int) -> None:
        """The watch of pods sees one more pod on a node."""
        event = {"type": "ADDED", "object": pod(number, self.names[number % len(self.names)], "Pending")}
        self.events.put(json.dumps(event).encode() + b"\n")

    def page(self, what: str, start: int, limit: int) -> dict[str, Any]:
        total = len(self.names) if what == "nodes" else self.pods
        end = min(start + limit, total)
        items = [
            node(self.names[number]) if what == "nodes" else pod(number, self.names[number % len(self.names)])
            for number in range(start, end)
        ]
        metadata = {"resourceVersion": "99"} | ({"continue": str(end)} if end < total else {})
        return {"metadata": metadata, "items": items}

    def vector(self, query: str) -> dict[str, Any]:
        now, chance = time.time(), random.Random(int(time.time()))
        stamps = query.startswith("timestamp(")
        result = [
            {"metric": {"node": name}, "value": [now, str(now if stamps else chance.uniform(5, 70))]}
            for name in self.names
        ]
        return {"data": {"resultType": "vector", "result": result}}


class _Handler(BaseHTTPRequestHandler):
    server: FakeCluster

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(place.query).items()}
        self.send_response(200)
        self.end_headers()
        if "watch" in asked:
            for event in self._watch("pods" in place.path, float(asked["timeoutSeconds"])):
                self.wfile.write(event)
        elif "query" in asked:
            self.wfile.write(json.dumps(self.server.vector(asked["query"])).encode())
        else:
            what = place.path.rpartition("/")[2]
            found = self.server.page(what, int(asked.get("continue", 0)), int(asked.get("limit", 500)))
            self.wfile.write(json.dumps(found).encode())

    def _watch(self, pods: bool, seconds: float) -> Iterator[bytes]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not pods:
                time.sleep(left)
                continue
            try:
                yield self.server.events.get(timeout=left)
            except queue.Empty:
                return

    def log_message(self, *_arguments: Any) -> None:
        pass


class FakeClusterProcess:
    """The same in another process."""

    def __init__(self, place: Path, nodes: int, pods: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(place), str(nodes), str(pods)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.address: str = said["address"]
        self.ca: str = said["ca"]
        self.names: list[str] = said["names"]

    def binds(self, first: int, number: int = 1) -> None:
        """The watch of pods sees so many more pods on nodes."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{first} {number}\n")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def main() -> None:
    place, nodes, pods = sys.argv[1:]
    cluster = FakeCluster(Path(place), int(nodes), int(pods))
    cluster.kubeconfig(Path(place, "kubeconfig"))
    print(json.dumps({"address": cluster.address, "ca": str(cluster.ca), "names": cluster.names}), flush=True)
    for line in sys.stdin:
        first, number = map(int, line.split())
        for one in range(first, first + number):
            cluster.binds(one)


if __name__ == "__main__":
    main()
