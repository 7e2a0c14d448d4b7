# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The status as JSON, text and page: the same everywhere, and nothing in it is obeyed by a terminal or a browser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.status import Status, Table, from_json, printable, to_json, to_text
from colocation.common.status_page import to_html

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = tuple(draw(st.lists(st.text(), min_size=1, max_size=4)))
    rows = draw(st.lists(st.tuples(*[CELLS for _c in columns]), max_size=4))
    return Table(draw(st.text()), columns, tuple(rows))


STATUSES = st.builds(
    Status,
    st.text(),
    st.text(),
    st.text(),
    st.lists(st.text(), max_size=3).map(tuple),
    st.dictionaries(st.text(), CELLS, max_size=3).map(lambda facts: tuple(facts.items())),
    st.lists(tables(), max_size=2).map(tuple),
)
EXAMPLE = Status(
    "device-plugin",
    "1.0",
    "1 of 2",
    ("b: it is not there",),
    (("load", 0.123456789), ("ready", True)),
    (Table("Resources", ("name", "n"), (("a", 10), ("bb", None))), Table("Nothing", ("x",))),
)


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "src" for name, _value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_terminal_shows_columns() -> None:
    assert to_text(EXAMPLE) == (
        "device-plugin 1.0: NOT HEALTHY, 1 of 2\n"
        "  ! b: it is not there\n"
        "\n"
        "  load   0.123457\n"
        "  ready  yes\n"
        "\n"
        "Resources\n"
        "  NAME  N\n"
        "  a     10\n"
        "  bb    –\n"
        "\n"
        "Nothing\n"
        "  none\n"
    )


def test_colour_only_marks_the_state() -> None:
    assert "\033[1;31mNOT HEALTHY\033[0m" in to_text(EXAMPLE, color=True)
    assert "\033[32mhealthy\033[0m" in to_text(Status("a", "1", "fine"), color=True)


@given(STATUSES)
def test_json_carries_all(status: Status) -> None:
    assert from_json(to_json(status)) == status


@given(STATUSES)
def test_nothing_in_a_status_is_obeyed_by_a_terminal(status: Status) -> None:
    assert all(line.isprintable() for line in to_text(status).split("\n"))


@given(STATUSES)
def test_nothing_in_a_status_becomes_markup(status: Status) -> None:
    page = Page(to_html(status))
    known = {"html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "span", "div", "section"}
    known |= {"ul", "li", "dl", "dt", "dd", "table", "tr", "th", "td", "footer", "a"}
    assert set(page.tags) <= known


def test_a_share_is_a_bar_of_its_width_and_nothing_else_is() -> None:
    rows = (("worker1", "41.3%"), ("worker2", "full"), ("worker3", "130.0%"), ("<b>5%", None))
    html = to_html(Status("a", "1", "fine", tables=(Table("Nodes", ("node", "load"), rows),)))
    assert '<div class="share" style="--of:41.3">41.3%</div>' in html
    assert '<div class="share" style="--of:100">130.0%</div>' in html
    assert html.count('class="share"') == 2
    assert "<td>full</td>" in html and "&lt;b&gt;5%" in html


def test_amounts_stand_by_their_ends_also_where_some_are_missing() -> None:
    rows = (("a", "1.50 GiB", 3, None, True), ("b", None, "", None, False))
    html = to_html(Status("a", "1", "fine", tables=(Table("Zones", ("zone", "held", "n", "none", "well"), rows),)))
    assert '<th>zone</th><th class="number">held</th><th class="number">n</th><th>none</th><th>well</th>' in html
    assert '<td class="number">1.50 GiB</td>' in html and '<td class="number">–</td>' in html


def test_a_drawing_is_made_for_the_page_alone() -> None:
    made: list[str] = []

    def draw() -> str:
        made.append("once")
        return "<svg><text>a CPU</text></svg>"

    status = Status("a", "1", "fine", drawing=draw)
    assert from_json(to_json(status)) == status
    to_text(status)
    assert made == []
    assert '<section class="drawing"><svg><text>a CPU</text></svg></section>' in to_html(status)


def test_the_page_shows_problems_facts_and_tables() -> None:
    page = Page(to_html(EXAMPLE))
    for text in ("device-plugin", "not healthy", "b: it is not there", "0.123457", "Resources", "none"):
        assert text in page.text


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"agent": 1}', '{"tables": [{}]}', "[" * 100_000])
def test_something_else_is_no_status(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


def test_a_row_must_fit_its_columns() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Table("t", ("a", "b"), (("x",),))


def test_control_characters_are_replaced() -> None:
    assert printable("a\033[2Jb") == "a\N{REPLACEMENT CHARACTER}[2Jb"
