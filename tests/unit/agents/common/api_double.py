# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the API server: TLS with an authority made here, answers from a list, what was asked on record."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Answer:
    """What the double says next. Without a status it hangs up."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request that arrived."""

    verb: str
    path: str
    token: str
    who: str  # the common name of the client's certificate
    kind: str
    body: Any


class ApiDouble(ThreadingHTTPServer):
    """Answers in turn; the last answer stays."""

    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        self.asked: list[Asked] = []
        self.answers: list[Answer] = [Answer(200, {})]
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(authority.issue("api"))
        self._tls.load_verify_locations(authority.certificate)
        self._tls.verify_mode = ssl.CERT_OPTIONAL
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = self._tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that go away are part of the tests


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ApiDouble

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        subject = dict(part[0] for part in (self.connection.getpeercert() or {}).get("subject", ()))  # type: ignore[attr-defined]
        self.server.asked.append(
            Asked(
                self.command,
                self.path,
                self.headers.get("Authorization", "").removeprefix("Bearer "),
                subject.get("commonName", ""),
                self.headers.get("Content-Type", ""),
                json.loads(self.rfile.read(length)) if length else None,
            )
        )
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.status is None:
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        lines = answer.body if isinstance(answer.body, list) else [answer.body]
        for line in lines:
            self.wfile.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    do_POST = do_PATCH = do_GET

    def log_message(self, *_arguments: Any) -> None:
        pass


class Authority:
    """Certificates from openssl, as an old kubeadm's: without the extensions that strict checks want."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self.directory = directory
        self.certificate = directory / f"{name}.crt"
        self._key = directory / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"),
            *("-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate),
        )

    def issue(self, name: str) -> Path:
        """A certificate and its key in one file."""
        key, request, made = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        names = self.directory / "names"
        names.write_text("subjectAltName = IP:127.0.0.1, DNS:kubernetes\n")
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", key, "-out", request),
        )
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", "1", "-extfile", names, "-out", made),
        )
        both = self.directory / f"{name}.pem"
        both.write_text(made.read_text() + key.read_text())
        return both

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.directory)


@contextmanager
def api_double(authority: Authority) -> Iterator[ApiDouble]:
    """A double that answers for the time of the block."""
    double = ApiDouble(authority)
    thread = threading.Thread(target=double.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.shutdown()
        double.server_close()
        thread.join(5)
