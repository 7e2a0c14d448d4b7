# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a look for cgroups tells between two rounds; rounds themselves are tested with a whole agent
(contract/agents/test_cri_placement.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.containers import creation, resources
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import machine
from colocation.common.config import load
from colocation.cri_proxy import calls
from colocation.cri_proxy.cgroups import Cgroups
from colocation.cri_proxy.config import Config
from colocation.cri_proxy.policy import PlacementPolicy
from colocation.cri_proxy.runtime import Runtime
from colocation.cri_proxy.state import State
from colocation.cri_proxy.truth import MOST_ASKED, Truth

FIRST, SECOND = "a" * 64, "b" * 64


class Node:
    """A policy with its truth, and folders that stand for cgroups. No runtime answers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.policy = PlacementPolicy()
        self.policy.configure(load(Config, "", "f"), machine("hygon-c86"))
        self.truth = Truth(self.policy, Runtime(f"{place}/nobody"), Cgroups(str(place)), State())

    def begin(self, key: int, container: str) -> Path:
        self.policy.create(creation(key, resources(1)))
        self.policy.observe(calls.ContainerCreated(key, container))
        folder = self.place / "kubepods.slice" / f"kubepods-pod{key}.slice" / f"cri-containerd-{container}.scope"
        folder.mkdir(parents=True)
        return folder


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_nothing_ends_while_all_have_their_cgroups(node: Node) -> None:
    assert not node.truth.ended()
    node.begin(1, FIRST)
    assert not node.truth.ended()
    node.begin(2, SECOND)
    assert not node.truth.ended()


def test_who_loses_its_cgroup_is_asked_for_until_it_is_forgotten(node: Node) -> None:
    folder = node.begin(1, FIRST)
    node.begin(2, SECOND)
    assert not node.truth.ended()
    folder.rmdir()
    assert node.truth.ended()
    node.policy.forget([FIRST])
    assert not node.truth.ended()


def test_a_runtime_that_says_it_lives_is_not_asked_for_ever(node: Node) -> None:
    node.begin(1, FIRST).rmdir()
    assert not node.truth.ended()  # it has not begun yet, for all we know
    folder = node.begin(2, SECOND)
    assert not node.truth.ended()
    folder.rmdir()
    assert [node.truth.ended() for _look in range(MOST_ASKED + 3)] == [True] * MOST_ASKED + [False] * 3


def test_who_is_stopped_by_the_kubelet_is_nobody_to_ask_for(node: Node) -> None:
    folder = node.begin(1, FIRST)
    assert not node.truth.ended()
    node.policy.observe(calls.ContainerStopped(FIRST))
    folder.rmdir()
    assert not node.truth.ended()


def test_a_container_that_is_being_made_is_nobody_to_look_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.policy.create(creation(1, resources(1)))
    monkeypatch.setattr(Cgroups, "containers", lambda _self: pytest.fail("all cgroups were looked at"))
    assert not node.truth.ended()
