# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A fake of Prometheus: answers queries from a table, and can be slow, wrong, half empty or ask who is there."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Metric:
    """Values by label `node`, and how old their samples are, or by its clock of when."""

    values: dict[str, float | str] = field(default_factory=dict)
    age: float = 0.0
    at: float | None = None
    label: str = "node"
    pods: dict[tuple[str, str], float] = field(default_factory=dict)  # by namespace and pod


class FakePrometheus(ThreadingHTTPServer):
    """`metrics` by query; what is not there gives an empty vector."""

    daemon_threads = True

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.metrics: dict[str, Metric] = {}
        self.whole: bytes | None = None  # said instead of any answer
        self.status = 200
        self.wait = 0.0
        self.drip = 0.0  # seconds between two bytes
        self.clock = 0.0  # how far its clock is from ours
        self.password = ""  # the header Authorization that it wants
        self.asked: list[str] = []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_address[1]}"

    def memory(self, **percent: float | str) -> None:
        self.metrics["node_mem_usage_avg_5m"] = Metric(dict(percent))

    def cpu(self, **percent: float | str) -> None:
        self.metrics["node_cpu_usage_avg_5m"] = Metric(dict(percent))

    def answer(self, query: str) -> Any:
        now = time.time() + self.clock
        stamps = query.startswith("timestamp(")
        metric = self.metrics.get(query[len("timestamp(") : -1] if stamps else query, Metric())
        stamp = now - metric.age if metric.at is None else metric.at
        result = [
            {"metric": {metric.label: name}, "value": [now, str(stamp if stamps else value)]}
            for name, value in metric.values.items()
        ]
        result += [
            {"metric": {"namespace": namespace, "pod": name}, "value": [now, str(value)]}
            for (namespace, name), value in metric.pods.items()
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that go away are part of the tests


class _Handler(BaseHTTPRequestHandler):
    server: FakePrometheus

    def do_GET(self) -> None:
        server = self.server
        (query,) = parse_qs(urlsplit(self.path).query).get("query", [""])
        server.asked.append(query)
        time.sleep(server.wait)
        allowed = not server.password or self.headers.get("Authorization") == server.password
        body = server.whole if server.whole is not None else json.dumps(server.answer(query)).encode()
        self.send_response(server.status if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.drip:
            for number in range(len(body)):
                self.wfile.write(body[number : number + 1])
                time.sleep(server.drip)
        else:
            self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@contextmanager
def fake_prometheus(certificate: Path | None = None) -> Iterator[FakePrometheus]:
    """A fake that answers for the time of the block."""
    fake = FakePrometheus(certificate)
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.shutdown()
        fake.server_close()
        thread.join(5)
