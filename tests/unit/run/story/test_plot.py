# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pictures that are well-formed whatever was measured, and show it where it belongs."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.run.story import plot
from ansible_collections.colocation.kubernetes.tests.run.story.plot import Line, Plot, clock, draw, shown, ticks
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Mark, Sample

HOSTILE = "</text></svg><script>alert('x')</script>&\x00\ud800\u202e\""


def drawn(lines: list[Line], marks: list[Mark] | None = None, **more: object) -> ElementTree.Element:
    picture = draw(Plot("it", "It", "blocks", lines, **more), marks or [], 0, 100)  # type: ignore[arg-type]
    picture.encode()
    return ElementTree.fromstring(picture)


def line(*pairs: tuple[float, float], name: str = "worker1") -> Line:
    return Line(name, [Sample(*pair) for pair in pairs])


def texts(picture: ElementTree.Element) -> str:
    return " ".join(picture.itertext())


@pytest.mark.parametrize("lines", [[], [line()], [line((5, math.nan))]])
def test_an_empty_picture_says_so(lines: list[Line]) -> None:
    picture = drawn(lines)
    assert "Nothing was measured." in texts(picture)
    assert not picture.findall(".//path[@class='line tone0']")


def test_one_sample_is_a_dot() -> None:
    assert len(drawn([line((5, 3))]).findall("circle")) == 1


def test_a_gap_is_not_drawn() -> None:
    paths = drawn([line((0, 1), (5, 2), (80, 2), (85, 3))]).findall("path[@class='line tone0']")
    assert len(paths) == 2


def test_values_stand_at_their_height() -> None:
    """From the axis, where 0 is, to the top, where the highest tick is."""
    (path,) = drawn([line((0, 0), (10, 10))]).findall("path[@class='line tone0']")
    ends = re.fullmatch(r"M58\.0 (\S+)L(\S+) (\S+)", path.attrib["d"])
    assert ends is not None
    assert float(ends[1]) == plot.HEIGHT - plot.BOTTOM
    assert float(ends[2]) == pytest.approx(58 + (plot.WIDTH - plot.LEFT - plot.RIGHT) / 10, abs=0.1)
    assert float(ends[3]) == plot.TOP


def test_what_is_counted_goes_in_steps() -> None:
    (path,) = drawn([line((0, 1), (10, 2))], stepped=True).findall("path[@class='line tone0']")
    assert re.fullmatch(r"M\S+ \S+H\S+V\S+", path.attrib["d"])


@pytest.mark.parametrize(("most", "levels"), [(1, "01"), (3, "0123"), (4, "01234"), (6, "0246")])
def test_what_is_counted_has_whole_ticks(most: float, levels: str) -> None:
    ticks_of = drawn([line((0, 0), (10, most))], stepped=True).findall("text[@text-anchor='end']")
    assert "".join(tick.text or "" for tick in ticks_of if tick.text != "blocks") == levels


def test_hostile_names_are_text() -> None:
    mark = Mark(HOSTILE, HOSTILE, 10)
    picture = drawn([line((0, 1), name=HOSTILE)], [mark], guides={HOSTILE: 3.0})
    assert not picture.findall(".//script")
    assert "<script>" in texts(picture)


def test_it_is_named_and_described_for_those_who_do_not_see_it() -> None:
    picture = drawn([line((0, 1), (5, 33), (6, math.nan), (7, 4))])
    named = picture.attrib["aria-labelledby"].split()
    found = {part.attrib["id"]: part.text for part in (picture.find("title"), picture.find("desc")) if part is not None}
    assert list(found) == named
    assert found["it-text"] == "In blocks. worker1: between 1 and 33, at the end 4."


def test_steps_are_marked_where_they_begin_and_labels_do_not_touch() -> None:
    picture = drawn([line((0, 1))], [Mark("1", "one", 0), Mark("2", "two", 0.1), Mark("3", "three", 50)])
    marks = picture.findall("g")
    assert [mark.findtext("title") for mark in marks] == ["1: one", "2: two", "3: three"]
    assert [mark.findtext("text") for mark in marks] == ["1", None, "3"]
    assert marks[2].find("path").attrib["d"].startswith("M462.0 ")  # type: ignore[union-attr]


@given(
    st.lists(st.tuples(st.floats(0, 1e7), st.floats(allow_nan=True, allow_infinity=True)), max_size=30),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_any_figures_make_a_picture(pairs: list[tuple[float, float]], begin: float, end: float) -> None:
    picture = draw(Plot("it", "It", "blocks", [line(*pairs)]), [], begin, end)
    ElementTree.fromstring(picture)
    assert not re.search(r'(?:x|y|cx|cy|d)="[^"]*(?:nan|inf)', picture)


def test_a_hundred_thousand_samples_are_a_small_picture() -> None:
    many = line(*((n / 1000, math.sin(n)) for n in range(100_000)))
    assert len(draw(Plot("it", "It", "blocks", [many]), [], 0, 100)) < 40_000


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_round_and_enclose(low: float, length: float) -> None:
    found = ticks(low, low + length)
    assert len(found) <= 8
    assert found[0] <= low + 1e-6 * length + 1e-6
    assert found[-1] >= low + length - 1e-6 * length - 1e-6


def test_numbers_as_people_read_them() -> None:
    numbers = (None, math.nan, 0, 33, 2.5, 1.0, 0.126, 0.0004, 12_345, 3e6, 8e9, 2e12, 1e30, -4)
    texts = ("–", "–", "0", "33", "2.5", "1", "0.13", "0.0004", "12.3 k", "3 M", "8 G", "2 T", "1.0e+30", "-4")
    assert [shown(number).replace("\u202f", " ") for number in numbers] == list(texts)


def test_times_as_people_read_them() -> None:
    assert [clock(s) for s in (0, 59.6, 61, 3600, 86399)] == ["0:00", "1:00", "1:01", "1:00:00", "23:59:59"]
