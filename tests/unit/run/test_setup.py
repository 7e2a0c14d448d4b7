# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is built for clusters is built beside the parts that need none."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import process
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn, Report
from ansible_collections.colocation.kubernetes.tests.run.setup import cluster_programs


class SessionDouble:
    """A session whose cluster tool is a line of shell."""

    def __init__(self, place: Path, tool: str) -> None:
        self.place, self.report, self.tool = place, Report(), tool
        self.stage = SimpleNamespace(collection=place)

    def run(self, command: list[Any], log: str) -> tuple[int, Path]:
        path = self.place / f"{log}.log"
        return process.run(["sh", "-c", self.tool], path, env={"PATH": "/bin:/usr/bin"}, cwd=self.place), path


def test_it_is_built_beside_other_parts_and_waited_for(tmp_path: Path) -> None:
    double = SessionDouble(tmp_path, "until [ -e lint ]; do sleep 0.02; done; touch built")
    with cluster_programs(double, ["lint", "contract"]) as ready:  # type: ignore[arg-type]
        (tmp_path / "lint").touch()
        ready()
        assert (tmp_path / "built").exists()


def test_nothing_is_built_where_no_part_wants_it(tmp_path: Path) -> None:
    with cluster_programs(SessionDouble(tmp_path, "touch built"), ["lint", "unit"]) as ready:  # type: ignore[arg-type]
        ready()
    assert not (tmp_path / "built").exists()


def test_a_build_that_fails_is_told_where_it_is_waited_for(tmp_path: Path) -> None:
    double = SessionDouble(tmp_path, "echo no compiler; exit 1")
    with (
        pytest.raises(CannotGoOn, match="(?s)cluster build failed:.*no compiler"),
        cluster_programs(double, ["molecule"]) as ready,  # type: ignore[arg-type]
    ):
        ready()


def test_a_run_that_ends_early_ends_the_build(tmp_path: Path) -> None:
    double, began = SessionDouble(tmp_path, "touch begun; sleep 600"), time.monotonic()
    with pytest.raises(RuntimeError), cluster_programs(double, ["contract"]):  # type: ignore[arg-type]
        while not (tmp_path / "begun").exists() and time.monotonic() < began + 20:
            time.sleep(0.02)
        raise RuntimeError("a part could not go on")
    assert time.monotonic() - began < 30
