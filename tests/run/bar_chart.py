# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A chart of bars as a PNG, for figures that people look at: `bar_chart.py chart.png < chart.json`.

The document says `title`, `groups` (what stands along the bottom) and `series` (a name and a value for each group).
Drawn by the standard library: a library for charts would be the largest thing that the tests need.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Colour = tuple[int, int, int]
INK, PAPER, LINE = (40, 40, 40), (255, 255, 255), (190, 190, 190)
COLOURS: Sequence[Colour] = ((90, 140, 200), (220, 110, 70), (120, 170, 90), (150, 110, 180))
DOT = 3  # pixels of a letter's dot
LETTER, LINE_HEIGHT = 4 * DOT, 8 * DOT
BAR, GAP, PLOT_HEIGHT, MARGIN = 48, 60, 300, 40
# Letters of three by five dots, small ones as large ones: five digits each, whose bits are the dots of a row.
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,-%:/()"
DOTS = (
    "75557262277174771717557117471774757711227575775717"
    "25755656563444365556746477464434553557557222711152"
    "55655444475775565555255526564425573656553421672222"
    "55557555525577555255552227124700002000240070051245"
    "02020112441222142224"
)


@dataclass(slots=True)
class Picture:
    """Pixels, from the top left; what is drawn outside is lost."""

    width: int
    height: int
    rows: list[bytearray] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [bytearray(PAPER * self.width) for _row in range(self.height)]

    def fill(self, left: int, top: int, width: int, height: int, colour: Colour) -> None:
        start, end = max(left, 0), min(left + width, self.width)
        for row in self.rows[max(top, 0) : max(top + height, 0)]:
            row[3 * start : 3 * end] = bytes(colour) * max(end - start, 0)

    def write(self, middle: int, top: int, text: str, colour: Colour = INK) -> None:
        """A line of text around a column."""
        left = middle - text_width(text) // 2
        for place, letter in enumerate(text.upper()):
            shape = 5 * LETTERS.find(letter)
            for row, bits in enumerate(DOTS[shape : shape + 5] if shape >= 0 else ""):
                for column in range(3):
                    if int(bits) & 4 >> column:
                        self.fill(left + place * LETTER + column * DOT, top + row * DOT, DOT, DOT, colour)

    def png(self) -> bytes:
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)  # eight bits each of red, green, blue
        pixels = zlib.compress(b"".join(b"\0" + row for row in self.rows), 9)
        return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def text_width(text: str) -> int:
    return len(text) * LETTER - DOT


def chart(title: str, groups: Sequence[str], series: Mapping[str, Sequence[float]]) -> Picture:
    """A bar for each value, beside those of the same group."""
    group_width = max(BAR * len(series), *(text_width(group) for group in groups)) + GAP
    legend = sum(text_width(name) + 5 * LETTER for name in series)
    width = max(group_width * len(groups), text_width(title), legend) + 2 * MARGIN
    floor = MARGIN + 3 * LINE_HEIGHT + PLOT_HEIGHT
    picture = Picture(width, floor + 3 * LINE_HEIGHT)
    picture.write(width // 2, MARGIN // 2, title)
    most = max([value for values in series.values() for value in values] + [1e-9])
    left = width // 2 - legend // 2
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        picture.fill(left, MARGIN // 2 + LINE_HEIGHT, LETTER, 5 * DOT, colour)
        picture.write(left + 2 * LETTER + text_width(name) // 2, MARGIN // 2 + LINE_HEIGHT, name)
        left += text_width(name) + 5 * LETTER
        for place, value in enumerate(values):
            middle = width // 2 + round((place - len(groups) / 2 + 0.5) * group_width)
            side = middle + round((number - len(series) / 2) * BAR)
            height = round(PLOT_HEIGHT * value / most)
            picture.fill(side + 2, floor - height, BAR - 4, height, colour)
            picture.write(side + BAR // 2, floor - height - 7 * DOT, f"{value:g}")
    picture.fill(MARGIN, floor, width - 2 * MARGIN, 2, LINE)
    for place, group in enumerate(groups):
        picture.write(width // 2 + round((place - len(groups) / 2 + 0.5) * group_width), floor + 3 * DOT, group)
    return picture


def main() -> None:
    asked = json.load(sys.stdin)
    Path(sys.argv[1]).write_bytes(chart(asked["title"], asked["groups"], asked["series"]).png())


if __name__ == "__main__":
    main()
