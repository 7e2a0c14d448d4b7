# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A Prometheus of which nothing is real but the answers to instant queries: what nodes use is what the test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class PrometheusDouble:
    """`used[query][node]` is a percentage; a query that is not there has no series."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.used: dict[str, dict[str, float]] = {}
        self.label = "node"
        self.asked: list[str] = []
        self.ill = False

    def set(self, memory: Mapping[str, float], cpu: Mapping[str, float] | None = None) -> None:
        self.used = {"node_mem_usage_avg_5m": dict(memory), "node_cpu_usage_avg_5m": dict(cpu or memory)}

    def answer(self, query: str) -> dict[str, object]:
        self.asked.append(query)
        values = self.used.get(query, {})
        found = [{"metric": {self.label: n}, "value": [time.time(), str(value)]} for n, value in values.items()]
        return {"status": "success", "data": {"resultType": "vector", "result": found}}


@contextmanager
def prometheus_double() -> Iterator[PrometheusDouble]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(parse_qs(urlsplit(self.path).query))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._reply(parse_qs(self.rfile.read(length).decode()))

        def _reply(self, asked: Mapping[str, list[str]]) -> None:
            body = json.dumps(double.answer(asked.get("query", [""])[0])).encode()
            self.send_response(503 if double.ill else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_arguments: object) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    double = PrometheusDouble(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.1,))
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
