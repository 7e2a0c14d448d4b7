# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The demo's page in a real browser, without a network, as root and without a display.

The page is the one that ./demo writes, with made-up figures; what is looked for are pixels, not words about them.
"""

from __future__ import annotations

import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.report_page import png
from ansible_collections.colocation.kubernetes.tests.contract.report_page.png import Colour, Picture
from ansible_collections.colocation.kubernetes.tests.run.packages import BROWSER, command_of
from ansible_collections.colocation.kubernetes.tests.run.story.charts import CHARTS
from ansible_collections.colocation.kubernetes.tests.run.story.page import Telling, Told, page
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key, Timeline

WIDTH, HEIGHT = 900, 900
LIMIT = 120  # seconds; a start takes one
BLUE: Colour = (0x1F, 0x6F, 0xB2)  # worker1, in light
ORANGE: Colour = (0xC2, 0x57, 0x0C)  # worker2
WHITE: Colour = (255, 255, 255)
DARK: Colour = (0x14, 0x18, 0x1F)
BLUE_IN_DARK: Colour = (0x6D, 0xB3, 0xF2)


def telling() -> Telling:
    """worker1 is high and then low, worker2 stays at a fifth of that."""
    timeline = Timeline()
    for at in range(0, 301, 5):
        for chart in CHARTS:
            for kind in chart.kinds:
                timeline.record(at, {Key(chart.key, "worker1", kind): 20 if at <= 150 else 0})
                timeline.record(at, {Key(chart.key, "worker2", kind): 4})
    told = (Told("1", "Begin", "", 0, 150, "done"), Told("2", "<b>Go on</b>", "", 150, 300, "done"))
    return Telling("A page that is tried", "today", told, timeline.series())


def browse(page_file: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the browser on a file; whoever started it is told what it said where it fails."""
    program = command_of(BROWSER)
    assert program is not None, f"{BROWSER.name} is not installed; ./test contract installs it"
    # A network of its own with nothing in it. Root has no sandbox in Chromium, nor has a chroot.
    alone = ["unshare", "--net", "--"]
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ]
    profile = f"--user-data-dir={page_file.parent / 'profile'}"
    command = [*alone, program, *quiet, profile, *words, page_file.as_uri()]
    done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done


def photographed(page_file: Path, *words: str) -> Picture:
    target = page_file.with_suffix(".png")
    browse(page_file, f"--screenshot={target}", f"--window-size={WIDTH},{HEIGHT}", *words)
    return png.read(target.read_bytes())


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(page(telling()), encoding="utf-8")
    return path


class Shapes(HTMLParser):
    """Plots in the browser's own tree, with the lines in each."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        if tag == "svg" and kind == "plot":
            self.lines.append(0)
        elif tag == "path" and kind.startswith("line ") and self.lines:
            self.lines[-1] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_browser_finds_every_plot_with_its_lines(page_file: Path) -> None:
    shapes = Shapes()
    shapes.feed(browse(page_file, "--dump-dom").stdout.decode())
    assert len(shapes.lines) == len(CHARTS)
    expected = [2 * len(chart.kinds) for chart in CHARTS]
    swatches = [*expected[1:], 0]  # the legend of the next chart comes before its plot
    assert shapes.lines == [own + next_ones for own, next_ones in zip(expected, swatches, strict=True)]
    assert "<b>Go on</b>" in shapes.text


def test_lines_are_drawn_where_the_figures_are(page_file: Path) -> None:
    """Of the first plot: worker1 is at the top on the left and at the bottom on the right, worker2 low all along."""
    picture = photographed(page_file)
    assert (picture.width, picture.height) == (WIDTH, HEIGHT)
    assert picture.at(3, 3) == WHITE
    top = _first_row(picture, BLUE, 300)
    assert top is not None
    left, right = 100, WIDTH // 2 + 60
    assert picture.count(left, top - 2, 300, 8, BLUE) > 300
    assert picture.count(right, top - 2, 300, 8, BLUE) == 0
    assert picture.count(right, top + 140, 300, 80, BLUE) > 300
    for x in (left, right):
        assert picture.count(x, top + 110, 300, 80, ORANGE) > 300


def test_the_readers_dark_is_followed(page_file: Path) -> None:
    picture = photographed(page_file, "--blink-settings=preferredColorScheme=0")
    assert picture.at(3, 3) == DARK
    assert _first_row(picture, BLUE_IN_DARK, 300) is not None


def _first_row(picture: Picture, colour: Colour, least: int) -> int | None:
    """The first row with so many pixels of a colour: a line that runs across, no letter and no legend."""
    return next((y for y in range(picture.height) if picture.count(0, y, picture.width, 1, colour) > least), None)
