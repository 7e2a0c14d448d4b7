# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How the story tells that nothing stayed. Nodes and cluster are doubles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run.story import props
from ansible_collections.colocation.kubernetes.tests.run.story.steps import Trouble

BEFORE = {"worker1": ["file /etc/fstab 1"], "worker2": [], props.CLUSTER: ["Secret default/other 2"]}


class SceneDouble:
    """What stands is what it is made with."""

    def __init__(self, now: dict[str, list[str]]) -> None:
        self.before = {place: list(lines) for place, lines in BEFORE.items()}
        self.collection = Path(__file__).parents[4]
        self._now = now

    def on_all(self, ask: Callable[[str], Any]) -> dict[str, Any]:
        return {node: ask(node) for node in ("worker1", "worker2")}

    def ssh(self, node: str, script: str, limit: float) -> str:
        assert "mounts" in script and limit > 90
        return "\n".join(self._now[node])

    def cluster_stands(self) -> list[str]:
        return self._now[props.CLUSTER]


def left(**now: list[str]) -> str:
    """What is told; empty where nothing stayed."""
    look = props.nothing_left(SceneDouble(BEFORE | now))  # type: ignore[arg-type]
    return "" if look.ok else look.seen


def test_what_stands_as_before_is_well() -> None:
    assert left() == ""


def test_a_file_and_an_object_that_changed_are_told() -> None:
    assert left(worker2=["unit x enabled"]) == "left: worker2: new: unit x enabled"
    changed = left(**{props.CLUSTER: ["Secret default/other 3"]})
    assert changed == "left: the cluster: gone: Secret default/other 2; the cluster: new: Secret default/other 3"


def test_a_cluster_that_nobody_looked_at_is_no_proof() -> None:
    scene = SceneDouble(BEFORE)
    del scene.before[props.CLUSTER]
    with pytest.raises(Trouble, match="--destroy"):
        props.nothing_left(scene)  # type: ignore[arg-type]
