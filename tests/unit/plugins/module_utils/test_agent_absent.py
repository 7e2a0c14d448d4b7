# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_absent import (
    Removal,
    dead_sockets,
    take_away,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.agent_node import UNIT, AgentNode

RELEASE = "1-aaaaaaaaaaaa"
DEAD, ALIVE = "mock.com_gpu.0123456789abcdef.sock", "mock.com_gpu.fedcba9876543210.sock"


@pytest.fixture
def node(tmp_path: Path) -> AgentNode:
    node = AgentNode(tmp_path)
    node.bring(RELEASE)
    return node


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short path, for the kernel takes no long ones: a dead socket of ours, one that is served, and others'."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as alive:
        place = Path(folder)
        alive.bind(str(place / ALIVE))
        alive.listen()
        for name in (DEAD, "nvidia-gpu.sock"):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(place / name))
        (place / "a.0123456789abcdef.sock").write_text("a file")
        (place / "mock.com_gpu.sock").symlink_to(DEAD)
        (place / "memory.sock").symlink_to(ALIVE)
        (place / "other.sock").symlink_to("nvidia-gpu.sock")
        yield place


def _take_away(node: AgentNode, *globs: str, check_mode: bool = False) -> Removal:
    reached = node.node(check_mode)
    return take_away(UNIT, reached.systemd, reached.ledger, reached.store, list(globs), 10)


def test_only_dead_sockets_of_agents_and_links_to_them_are_found(sockets: Path) -> None:
    names = [Path(path).name for path in dead_sockets(f"{sockets}/*.sock")]
    assert names == [DEAD, "mock.com_gpu.sock"]


def test_a_link_whose_socket_is_gone_is_found(sockets: Path) -> None:
    (sockets / DEAD).unlink()
    assert [Path(path).name for path in dead_sockets(f"{sockets}/*.sock")] == ["mock.com_gpu.sock"]


def test_all_of_an_agent_goes_and_a_second_time_nothing(node: AgentNode, sockets: Path) -> None:
    node.run(node.agent(RELEASE))
    told = _take_away(node, f"{sockets}/*.sock", check_mode=True)
    assert node.process is not None
    done = _take_away(node, f"{sockets}/*.sock")
    assert told == done
    assert {line["kind"] for line in done.report.restored} == {"unit", "file", "directory"}
    assert node.process is None
    assert node.units[UNIT].enablement == "disabled"
    assert not node.unit.exists()
    assert not node.config.parent.exists()
    assert not node.state_dir.exists()
    assert not (sockets / DEAD).exists()
    assert (sockets / ALIVE).exists()
    assert not _take_away(node, f"{sockets}/*.sock").changed


def test_a_node_without_anything_is_left(node: AgentNode) -> None:
    assert not _take_away(node).changed


def test_an_edited_configuration_stays_and_is_told(node: AgentNode) -> None:
    node.run(node.agent(RELEASE))
    node.config.write_text("devices: 1\n")
    done = _take_away(node)
    assert [line["name"] for line in done.report.kept] == [str(node.config), str(node.config.parent)]
    assert node.process is None
    assert not node.unit.exists()
    assert not node.state_dir.joinpath("agents").exists()
