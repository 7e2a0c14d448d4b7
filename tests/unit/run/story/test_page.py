# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The page: whole, whatever happened; nothing in it that is fetched, run or obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from ansible_collections.colocation.kubernetes.tests.run.story.charts import CHARTS
from ansible_collections.colocation.kubernetes.tests.run.story.page import Happened, Telling, Told, page, verdict
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key, Timeline

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'&\x1b[31m\ud800"
VOID = {"meta", "br", "path", "circle"}


class Reader(HTMLParser):
    """Elements with their attributes; complains about what is not closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text.encode().decode())
    reader.close()
    assert reader.open == []
    return reader


def telling(name: str = "worker1", outcome: str = "done") -> Telling:
    timeline = Timeline()
    for at in range(0, 100, 5):
        timeline.record(at, {Key(chart.key, name, kind): at for chart in CHARTS for kind in chart.kinds})
    told = (Told("1", "Begin", "The beginning.", 0, 40, "done"), Told("2", name, name, 40, 90, outcome, (name,)))
    events = (Happened(41, name, "ColocationMigrated", name),)
    return Telling("Colocation", "today", told, timeline.series(), events, ((name, name),))


def test_every_chart_is_there_with_its_figures() -> None:
    found = read(page(telling()))
    assert sum(tag == "svg" and attributes.get("class") == "plot" for tag, attributes in found.seen) == len(CHARTS)
    assert sum(tag == "table" for tag, dummy in found.seen) == len(CHARTS) + 1  # and the events
    assert "All 2 steps went as told, in 1:30." in found.text


def test_ids_are_there_once_and_what_names_them_finds_them() -> None:
    found = read(page(telling())).seen
    ids = [attributes["id"] for dummy, attributes in found if "id" in attributes]
    named = [name for dummy, attributes in found for name in (attributes.get("aria-labelledby") or "").split()]
    assert len(ids) == len(set(ids))
    assert set(named) == set(ids)


def test_nothing_is_fetched_or_run() -> None:
    text = page(telling(HOSTILE))
    found = read(text)
    tags = {tag for tag, dummy in found.seen}
    assert not tags & {"script", "img", "link", "iframe", "object", "embed", "base", "form", "use", "image"}
    attributes = {name for dummy, some in found.seen for name in some}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert not re.search(r"url\(|@import|https?:|//", text)
    assert "default-src 'none'" in text


def test_hostile_names_are_shown_as_text() -> None:
    assert "<script>alert(1)</script>" in read(page(telling(HOSTILE))).text


def test_a_telling_that_never_began_is_a_page_too() -> None:
    found = read(page(Telling("Colocation", "today", (), {})))
    assert found.text.count("Nothing was measured.") >= len(CHARTS)


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ("failed", "It failed in step 2, worker1, after 1:30."),
        ("stopped", "It was interrupted in step 2, worker1, after 1:30."),
        ("left out", "All 1 steps went as told, in 1:30. Left out: worker1."),
    ],
)
def test_how_it_went_is_said_first(outcome: str, sentence: str) -> None:
    assert verdict(telling(outcome=outcome).told)[1] == sentence
    assert sentence in read(page(telling(outcome=outcome))).text
