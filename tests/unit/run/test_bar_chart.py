# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A chart as a PNG, read back by what the standard library has."""

from __future__ import annotations

import io
import itertools
import json
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import bar_chart
from ansible_collections.colocation.kubernetes.tests.run.bar_chart import COLOURS, INK, PLOT_HEIGHT, Picture, chart


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place = 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", png, place + 8 + length)[0] == zlib.crc32(kind + content)
        yield kind, content
        place += length + 12


def pixels(png: bytes) -> list[list[tuple[int, ...]]]:
    found = list(chunks(png))
    assert [kind for kind, _content in found] == [b"IHDR", b"IDAT", b"IEND"]
    width, height = struct.unpack_from(">II", found[0][1])
    raw, step = zlib.decompress(found[1][1]), 3 * width + 1
    assert len(raw) == height * step
    rows = [raw[line * step + 1 : (line + 1) * step] for line in range(height)]
    return [[tuple(row[at : at + 3]) for at in range(0, len(row), 3)] for row in rows]


def heights(png: bytes, number: int) -> list[int]:
    """How high the bars of a series are, from left to right; the legend has small squares."""
    found = []
    for column in zip(*pixels(png), strict=True):
        runs = (len(list(run)) for colour, run in itertools.groupby(column) if colour == COLOURS[number])
        highest = max(runs, default=0)
        found.append(highest if highest > 20 else 0)
    return [height for height, _run in itertools.groupby(found) if height]


def test_bars_are_as_high_as_their_values() -> None:
    png = chart("title", ["a", "b"], {"before": [10, 20], "after": [0, 30]}).png()
    assert heights(png, 0) == [PLOT_HEIGHT // 3, 2 * PLOT_HEIGHT // 3]
    assert heights(png, 1) == [PLOT_HEIGHT]


def test_nothing_but_zeros_has_no_bars() -> None:
    png = chart("title", ["a"], {"before": [0]}).png()
    assert heights(png, 0) == []


def test_letters_are_what_they_look_like() -> None:
    picture = Picture(12, 15)
    picture.write(4, 0, "T")
    shown = ["".join("#" if at == INK else "." for at in row[::3]) for row in pixels(picture.png())[::3]]
    assert [row[:3] for row in shown] == ["###", ".#.", ".#.", ".#.", ".#."]


def test_what_lies_outside_is_lost() -> None:
    picture = Picture(4, 4)
    picture.fill(-2, -2, 4, 4, INK)
    picture.fill(3, 3, 9, 9, INK)
    picture.fill(9, 9, 1, 1, INK)
    assert sum(row.count(INK) for row in pixels(picture.png())) == 5


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"title": "t", "groups": ["a"], "series": {"s": [1]}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(document)))
    monkeypatch.setattr(sys, "argv", ["bar_chart", str(tmp_path / "c.png")])
    bar_chart.main()
    assert heights((tmp_path / "c.png").read_bytes(), 0) == [PLOT_HEIGHT]
