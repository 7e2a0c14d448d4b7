# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Asking over a socket that is a file: what is sent, and what a bad answer is told as."""

from __future__ import annotations

import http.server
import json
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run.story import workloads
from ansible_collections.colocation.kubernetes.tests.run.story.api import Api, ApiFailed, place

asked: list[tuple[str, str, str, object]] = []


class Answers(http.server.BaseHTTPRequestHandler):
    """Keeps what was asked; the path says what is answered."""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get("Content-Type", "")
        asked.append((self.command, self.path, kind, json.loads(body) if body else None))
        status, text = (404, "gone") if "/gone" in self.path else (200, "<html>" if "/odd" in self.path else "{}")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PATCH = do_POST = do_DELETE = answer

    def log_message(self, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "a file"


@pytest.fixture
def api() -> Iterator[Api]:
    asked.clear()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "api")
        with socketserver.UnixStreamServer(str(path), Answers) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield Api(path, timeout=5)
            finally:
                server.shutdown()
                thread.join()


def test_an_object_is_applied_by_the_server(api: Api) -> None:
    batch = workloads.batch()
    api.apply(batch)
    path = "/apis/apps/v1/namespaces/story/deployments/batch?fieldManager=demo&force=true"
    assert asked == [("PATCH", path, "application/apply-patch+yaml", batch)]


def test_what_is_not_there_is_deleted_already(api: Api) -> None:
    gone = {"kind": "Namespace", "metadata": {"name": "gone"}}
    api.delete(gone)
    assert not api.there(gone)
    assert api.there(workloads.namespace())
    with pytest.raises(ApiFailed, match="GET /gone: 404 gone") as failed:
        api.get("/gone")
    assert failed.value.status == 404


def test_an_answer_that_is_no_json_is_told(api: Api) -> None:
    with pytest.raises(ApiFailed, match="the answer is no JSON"):
        api.get("/odd")


def test_nobody_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ApiFailed, match="no answer") as failed:
        Api(tmp_path / "api").get("/api")
    assert failed.value.status == 0


def test_everything_that_the_story_makes_has_a_place() -> None:
    things = [workloads.namespace(), workloads.batch(), workloads.web("web-1", "a"), *workloads.migrator()]
    assert len({place(thing) for thing in things}) == len(things)
