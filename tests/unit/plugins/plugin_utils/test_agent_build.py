# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Archives are made once, found again by what went into them, and never used when they are not what was kept."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_archive import unpack
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import walk
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import (
    KEPT,
    Archive,
    BuildFailed,
    archive_for,
    default_cache,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_pip import PipFailed
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import Target
from ansible_collections.colocation.kubernetes.tests.unit.plugins.agent_trees import HERE, distribution, fill


class Builder:
    """A cache, a distribution, and how often packages were fetched."""

    def __init__(self, place: Path) -> None:
        self.agents = distribution(place / "agents")
        self.cache = place / "cache"
        self.fetched = 0

    def fill(self, tree: Path) -> None:
        self.fetched += 1
        fill(tree)

    def __call__(self, target: Target = HERE) -> Archive:
        return archive_for(self.agents, target, self.cache, self.fill)

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if path.suffix != ".lock")


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_a_second_run_fetches_nothing(build: Builder) -> None:
    first = build()
    assert first.made
    assert build() == replace(first, made=False)
    assert build.fetched == 1


def test_the_tree_has_our_package_and_nothing_of_the_controller(build: Builder, tmp_path: Path) -> None:
    (build.agents / "colocation" / "__pycache__").mkdir()
    (build.agents / "colocation" / "__pycache__" / "a.pyc").touch()
    for junk in (".config.py.swp", "config.py~"):
        (build.agents / "colocation" / "common" / junk).touch()
    release = unpack(build().path, str(tmp_path / "tree"))
    assert sorted(walk(str(tmp_path / "tree"))) == [
        "RELEASE.json",
        "colocation/__init__.py",
        "colocation/common/__init__.py",
        "colocation/echo/__init__.py",
        "colocation/echo/__main__.py",
        "colocation/proxy/__init__.py",
        "colocation/proxy/__main__.py",
        "made_up-1.dist-info/METADATA",
        "madeup/__init__.py",
    ]
    assert set(release.agents) == {"echo", "proxy"}
    assert (release.version, release.python, release.architecture) == ("0.1.0", HERE.python, HERE.architecture)


def test_two_caches_get_the_same_bytes(build: Builder, tmp_path: Path) -> None:
    first = build()
    before = os.umask(0o077)
    try:
        other = archive_for(distribution(tmp_path / "again"), HERE, tmp_path / "other", fill)
    finally:
        os.umask(before)
    assert other.sha256 == first.sha256


def test_changed_code_under_an_unchanged_version_is_another_release(build: Builder) -> None:
    first = build()
    (build.agents / "colocation" / "echo" / "more.py").touch()
    second = build()
    assert second.release.id != first.release.id
    assert second.release.version == first.release.version
    changed = {name for name in ("echo", "proxy") if first.release.agents[name] != second.release.agents[name]}
    assert changed == {"echo"}


def test_a_changed_lock_is_fetched_anew(build: Builder) -> None:
    build()
    (build.agents / "locks" / HERE.lock).write_text("made-up==2\n")
    assert build().made
    assert build.fetched == 2


@pytest.mark.parametrize("damage", ["cut", "gone", "record cut", "record gone", "record of another"])
def test_a_broken_archive_is_made_anew(build: Builder, damage: str) -> None:
    first = build()
    archive = Path(first.path)
    record = archive.with_name(archive.name.replace(".tar.gz", ".json"))
    if damage == "cut":
        archive.write_bytes(archive.read_bytes()[:-1])
    elif damage == "gone":
        archive.unlink()
    elif damage == "record cut":
        record.write_text(record.read_text()[:40])
    elif damage == "record gone":
        record.unlink()
    else:
        record.write_text(record.read_text().replace(first.sha256, "0" * 64))
    assert build() == first
    assert build.fetched == 2


def test_forks_make_one_archive(build: Builder) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: build(), range(8)))
    assert [archive.made for archive in made].count(True) == 1
    assert build.fetched == 1


def test_what_a_failed_or_killed_run_left_is_never_used_and_goes(build: Builder) -> None:
    def fail(tree: Path) -> None:
        (tree / "half").touch()
        raise PipFailed("the index is down")

    with pytest.raises(PipFailed, match="the index is down"):
        archive_for(build.agents, HERE, build.cache, fail)
    assert build.kept == []
    (build.cache / f".building-{HERE.name}-killed").mkdir()
    (build.cache / ".building-python9.9-other").mkdir()  # somebody else's, who may still be at it
    build()
    assert [name for name in build.kept if name.startswith(".building")] == [".building-python9.9-other"]


def test_old_archives_go_and_those_in_use_stay(build: Builder) -> None:
    first = build()
    for number in range(KEPT + 1):
        (build.agents / "colocation" / "echo" / "number.py").write_text(str(number))
        last = build()
        (build.agents / "colocation" / "echo" / "number.py").unlink()
        assert not build().made, "the first one is in use all the time"
        for age, path in enumerate(sorted(build.cache.glob("*.tar.gz"), key=lambda path: -path.stat().st_mtime_ns)):
            os.utime(path, (1e9 - age, 1e9 - age))
    names = [name for name in build.kept if name.endswith(".tar.gz")]
    assert len(names) == KEPT
    assert {Path(first.path).name, Path(last.path).name} <= set(names)
    assert sorted(name.replace(".tar.gz", ".json") for name in names) == [
        name for name in build.kept if name.endswith(".json")
    ]


def test_only_its_user_may_look_into_the_cache(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    build.cache.mkdir(mode=0o755)
    build()
    assert stat.S_IMODE(build.cache.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BuildFailed, match=r"belongs to user 0, .* name another directory with agent_runtime_cache_dir"):
        build()


def test_a_place_that_can_not_be_written_is_told(build: Builder) -> None:
    build.cache.write_text("a file")
    with pytest.raises(BuildFailed, match=f"can't be packed on the controller, in {build.cache}: .*File exists"):
        build()


def test_a_distribution_without_a_version_is_told(build: Builder) -> None:
    (build.agents / "colocation" / "__init__.py").write_text("")
    with pytest.raises(BuildFailed, match="__init__.py has no line __version__"):
        build()


def test_a_package_that_brings_our_name_is_refused(build: Builder) -> None:
    def bring(tree: Path) -> None:
        (tree / "colocation").mkdir()

    with pytest.raises(BuildFailed, match="brings a package colocation of its own"):
        archive_for(build.agents, HERE, build.cache, bring)


def test_the_cache_is_where_caches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/a")
    assert default_cache({}) == Path("/home/a/.cache/colocation-kubernetes/agents")
    assert default_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/colocation-kubernetes/agents")
    assert default_cache({"XDG_CACHE_HOME": "c"}) == Path("/home/a/.cache/colocation-kubernetes/agents")
