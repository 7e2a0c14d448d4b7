# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Links between pages lead somewhere: to a file, and to a heading in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTION = Path(__file__).parents[3]
PAGES = sorted([COLLECTION / "README.md", *COLLECTION.glob("docs/**/*.md"), *COLLECTION.glob("roles/*/README.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings are reached, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    for target, anchor in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        if "://" in target:
            continue
        place = page.parent / target if target else page
        if not place.exists():
            yield f"{target} is not there"
        elif anchor and anchor not in anchors(place):
            yield f"{target} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(COLLECTION)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `heading`, two\n[a](#a-heading-two) [b](#nowhere) [c](gone.md) [d](https://example.org/x)\n")
    assert list(broken(page)) == [" has no heading #nowhere", "gone.md is not there"]
