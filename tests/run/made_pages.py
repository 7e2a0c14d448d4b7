# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Compares the pages that are made (of roles, modules, support) with what their sources make, or writes them.

A script of its own, for it needs PyYAML and ansible-doc, which the engine does not have: `python made_pages.py` in a
collection compares, with `--write DIRECTORY` it writes them there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.run import reference, support

NOTE = "<!-- Made from what the scenarios in molecule/ run with, by ./test --refresh-docs. -->"


def pages(collection: Path) -> dict[Path, str]:
    """Every page by its place in the collection."""
    tested = support.scenarios(collection)
    readme = (collection / "README.md").read_text()
    return {
        **reference.pages(collection),
        Path("docs/support.md"): support.page(tested, NOTE),
        Path("README.md"): support.put_into(readme, support.table(tested)),
    }


def differences(collection: Path, made: Mapping[Path, str]) -> list[str]:
    """Each page that is not what its source makes, or that nothing makes any more."""
    found = []
    for place, text in made.items():
        file = collection / place
        if not file.is_file():
            found.append(f"{place} is missing")
        elif file.read_text() != text:
            found.append(f"{place} is not what its source makes now")
    stand = {file.relative_to(collection) for kind in reference.KINDS for file in _stand(collection, kind)}
    return found + [f"{place} describes nothing that there is" for place in sorted(stand - made.keys())]


def write(collection: Path, made: Mapping[Path, str]) -> None:
    """Write all pages, and remove those that nothing makes any more."""
    for kind in reference.KINDS:
        (collection / "docs" / kind).mkdir(parents=True, exist_ok=True)
        for file in _stand(collection, kind):
            if file.relative_to(collection) not in made:
                file.unlink()
    for place, text in made.items():
        (collection / place).write_text(text)


def _stand(collection: Path, kind: str) -> list[Path]:
    return list((collection / "docs" / kind).glob("*.md"))


def main(arguments: Sequence[str]) -> int:
    """Compare, or write; the exit status."""
    collection = Path.cwd()
    made = pages(collection)
    if arguments[:1] == ["--write"]:
        write(Path(arguments[1]), made)
        print(f"{len(made)} pages")
        return 0
    found = differences(collection, made)
    print("\n".join([*found, "", "To write them anew: ./test --refresh-docs"]) if found else f"{len(made)} pages agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
