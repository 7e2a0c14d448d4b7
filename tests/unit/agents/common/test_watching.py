# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""List and watch against a double of the API: pages, breaks, versions that are too old."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    Answer,
    ApiDouble,
    Authority,
)
from colocation.common import watching
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import Document, KubeApi
from colocation.common.retry import Backoff
from colocation.common.watching import Kind, Listener, Watch

PODS = Kind("pods", "/api/v1/pods", 2, "spec.nodeName!=")
EXPIRED = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old resource version"}}


def item(name: str, version: str = "5") -> Document:
    return {"metadata": {"name": name, "resourceVersion": version}}


def listed(*names: str, version: str = "5", more: str = "") -> Answer:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return Answer(200, {"metadata": metadata, "items": [item(name) for name in names]})


def events(*found: tuple[str, str, str]) -> Answer:
    return Answer(200, [{"type": kind, "object": item(name, version)} for kind, name, version in found])


class Heard(Listener):
    """What a watch told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.broken = False

    def begins(self) -> None:
        self.said.append("begins")

    def page(self, documents: list[Document]) -> None:
        self.said += [f"page {document['metadata']['name']}" for document in documents]

    def listed(self) -> None:
        self.said.append("listed")

    def happened(self, kind: str, document: Document) -> None:
        if self.broken:
            self.broken = False
            raise RuntimeError("as asked")
        self.said.append(f"{kind} {document['metadata']['name']}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BACKOFF", Backoff(0.01, 0.02, 1 << 30))
    monkeypatch.setattr(watching, "LEAST_SECONDS", 0.02)


@pytest.fixture
def watch(double: ApiDouble, authority: Authority, tmp_path: Path) -> Iterator[Watch]:
    ca = Material(str(authority.certificate))
    access = Access("127.0.0.1", double.server_address[1], ca, token=Material(content="t"))
    made = Watch(KubeApi(lambda: access, timeout=20, backoff=Backoff(0.01, 0.02, 2)), PODS, Heard())
    yield made
    made.stop()
    if made._thread.ident:  # while there is who answers: Python leaves a socket open that is reset right after connect
        made._thread.join(30)


def heard(watch: Watch) -> list[str]:
    assert isinstance(watch._listener, Heard)
    return watch._listener.said


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_pages_then_events_then_on_from_where_it_was(double: ApiDouble, watch: Watch) -> None:
    double.answers = [
        listed("a", "b", more="next"),
        listed("c"),
        events(("ADDED", "d", "6"), ("BOOKMARK", "", "9")),
        events(("DELETED", "a", "10")),
        events(),
    ]
    watch.start()
    until(lambda: "DELETED a" in heard(watch))
    assert heard(watch) == ["begins", "page a", "page b", "page c", "listed", "ADDED d", "DELETED a"]
    paths = [asked.path for asked in double.asked]
    assert "limit=2" in paths[0]
    assert "fieldSelector=spec.nodeName%21%3D" in paths[0]
    assert "continue=next" in paths[1]
    assert "resourceVersion=5&" in paths[2]
    assert "resourceVersion=9&" in paths[3]
    assert watch.health.synced
    assert watch.health.problem == ""


@pytest.mark.parametrize("answer", [Answer(410, {"reason": "Expired"}), Answer(200, [EXPIRED])])
def test_a_version_that_is_too_old_begins_with_a_new_list(double: ApiDouble, watch: Watch, answer: Answer) -> None:
    double.answers = [listed("a"), answer, listed("b", version="20"), events()]
    watch.start()
    until(lambda: heard(watch).count("listed") == 2)
    assert heard(watch) == ["begins", "page a", "listed", "begins", "page b", "listed"]
    until(lambda: "resourceVersion=20&" in double.asked[-1].path)


@pytest.mark.parametrize("answer", [Answer(None), Answer(503, {}), Answer(200, b"no json\n"), Answer(403, {})])
def test_a_watch_that_breaks_goes_on_and_misses_nothing(double: ApiDouble, watch: Watch, answer: Answer) -> None:
    double.answers = [listed("a"), events(("ADDED", "b", "7")), answer, events(("ADDED", "c", "8")), events()]
    watch.start()
    until(lambda: "ADDED c" in heard(watch))
    assert heard(watch) == ["begins", "page a", "listed", "ADDED b", "ADDED c"]
    assert "resourceVersion=7&" in double.asked[3].path
    assert watch.health.failures == 1


def test_what_can_not_be_listed_is_told_and_tried_again(double: ApiDouble, watch: Watch) -> None:
    double.answers = [Answer(403, {"message": "pods is forbidden"})]
    watch.start()
    until(lambda: "pods is forbidden" in watch.health.problem)
    assert not watch.health.synced
    double.answers = [Answer(200, {}), listed("a"), events()]
    until(lambda: watch.health.synced)


@pytest.mark.parametrize("second", [Answer(410, {"reason": "Expired"}), Answer(200, {"items": 7}), Answer(403, {})])
def test_a_list_that_breaks_between_pages_begins_anew(double: ApiDouble, watch: Watch, second: Answer) -> None:
    double.answers = [listed("gone", "a", more="next"), second, listed("a"), events()]
    watch.start()
    until(lambda: "listed" in heard(watch))
    assert heard(watch) == ["begins", "page gone", "page a", "begins", "page a", "listed"]


def test_an_error_of_ours_begins_with_a_new_list(double: ApiDouble, watch: Watch) -> None:
    assert isinstance(watch._listener, Heard)
    watch._listener.broken = True
    double.answers = [listed("a"), events(("ADDED", "b", "7")), listed("a", "b"), events()]
    watch.start()
    until(lambda: heard(watch).count("listed") == 2)
    assert heard(watch)[-3:] == ["page a", "page b", "listed"]
    until(lambda: watch.health.problem == "")


def test_a_watch_that_ends_at_once_is_not_asked_for_without_end(
    monkeypatch: pytest.MonkeyPatch, double: ApiDouble, watch: Watch
) -> None:
    monkeypatch.setattr(watching, "LEAST_SECONDS", 5.0)
    waits: list[float | None] = []
    wait = watch._stopped.wait

    def noted(seconds: float | None = None) -> bool:
        waits.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(watch._stopped, "wait", noted)
    double.answers = [listed("a"), events()]
    watch.start()
    until(lambda: waits)
    assert waits == [pytest.approx(5.0, abs=3.0)]
    assert len(double.asked) == 2
