# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_layout import (
    current_release,
    read_release,
    running_release,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release

ID = "0.1.0-0123456789ab"
RELEASE = Release(ID, "0.1.0", "3.13", "x86_64", "0123456789ab", {"a": "x"}, 1, 1)
OTHER = replace(RELEASE, id="0.1.0-ba9876543210")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "opt" / "releases" / ID
    place.mkdir(parents=True)
    (place / "RELEASE.json").write_text(json.dumps(RELEASE.to_json()))
    return tmp_path / "opt"


def _process(home: Path, cwd: str) -> str:
    place = home.parent / "proc" / "7"
    place.mkdir(parents=True)
    (place / "cwd").symlink_to(cwd)
    return str(home.parent / "proc")


def test_a_release_says_what_it_is(home: Path) -> None:
    assert read_release(str(home), ID) == RELEASE


@pytest.mark.parametrize("content", [None, "", "{}", f'{{"id": "{ID}"}}', json.dumps(OTHER.to_json())])
def test_a_release_that_is_not_whole_is_none(content: str | None, home: Path) -> None:
    manifest = home / "releases" / ID / "RELEASE.json"
    manifest.unlink()
    if content is not None:
        manifest.write_text(content)
    assert read_release(str(home), ID) is None
    assert read_release(str(home), "none") is None


@pytest.mark.parametrize(
    ("target", "release"),
    [
        (f"releases/{ID}", ID),
        ("releases/x/", "x"),
        ("./releases/x/", "x"),
        ("{home}/releases/x", "x"),
        ("elsewhere/x", ""),
        ("/releases/x", ""),
        ("releases", ""),
        ("releases/x/y", ""),
        (None, ""),
    ],
)
def test_where_current_leads(target: str | None, release: str, home: Path) -> None:
    if target:
        (home / "current").symlink_to(target.format(home=home))
    assert current_release(str(home)) == release


def test_what_a_process_runs(home: Path) -> None:
    assert running_release(str(home), _process(home, str(home / "releases" / ID)), "7") == ID


@pytest.mark.parametrize("cwd", ["/", "{home}/releases/{id} (deleted)", "{home}/other/x"])
def test_a_process_that_runs_no_release_of_ours(cwd: str, home: Path) -> None:
    proc = _process(home, cwd.format(home=home, id=ID))
    assert running_release(str(home), proc, "7") == ""
    assert running_release(str(home), proc, "8") == ""


def test_links_on_the_way_to_the_releases_do_not_matter(home: Path) -> None:
    alias = home.parent / "alias"
    alias.symlink_to("opt")
    assert running_release(str(alias), _process(home, str(home / "releases" / ID)), "7") == ID
