# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Products are made once, whole or not at all, under a key of their content."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster import cache
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import content_key, made_once


def test_key_tells_contents_names_and_run_bits_apart(tmp_path: Path) -> None:
    keys = {content_key("a", "bc"), content_key("ab", "c")}
    file = tmp_path / "file"
    file.write_text("x")
    keys.add(content_key(tmp_path))
    file.chmod(0o755)
    keys.add(content_key(tmp_path))
    file.rename(tmp_path / "other")
    keys.add(content_key(tmp_path))
    (tmp_path / "other").write_text("y")
    keys.add(content_key(tmp_path))
    assert len(keys) == 6


def test_made_once_even_when_two_ask(tmp_path: Path) -> None:
    made: list[str] = []

    def make(product: Path) -> None:
        made.append("made")
        product.write_text("whole")

    threads = [threading.Thread(target=made_once, args=(tmp_path / "thing", make, "thing")) for dummy in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["made"]
    assert (tmp_path / "thing").read_text() == "whole"


def test_a_failed_making_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    def fail(product: Path) -> None:
        product.write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        made_once(tmp_path / "thing", fail, "thing")
    (tmp_path / ".thing.killed").mkdir()  # what a killed run leaves
    assert not (tmp_path / "thing").exists()
    made_once(tmp_path / "thing", lambda product: product.mkdir(), "thing")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["thing", "thing.lock"]


def test_what_nobody_asked_for_goes_when_another_is_made(tmp_path: Path) -> None:
    def make(product: Path) -> None:
        product.mkdir()

    used, unused = (made_once(tmp_path / name, make, name) for name in ("used", "unused"))
    long_ago = time.time() - (cache.UNUSED_DAYS + 1) * 86400
    for product in (used, unused):
        os.utime(f"{product}.lock", (long_ago, long_ago))
    made_once(used, make, "not made again")
    made_once(tmp_path / "new", make, "new")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["new", "used"]


def test_a_product_that_is_being_made_is_left(tmp_path: Path) -> None:
    with cache.locked(tmp_path / "other"):
        (tmp_path / "other").mkdir()
        os.utime(tmp_path / "other.lock", (0, 0))
        made_once(tmp_path / "new", Path.mkdir, "new")
    assert (tmp_path / "other").is_dir()
