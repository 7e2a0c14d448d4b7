# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""QEMU's command line for each shape: what the guest will see of processors and memory."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster import machine
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.spec import parse_node


def words(shape: str) -> str:
    return " ".join(machine.topology(parse_node(shape)))


def test_plain_has_no_numa() -> None:
    assert words("plain") == "-smp 1,sockets=1,dies=1,cores=1 -m 2048M"


def test_dhyana_has_a_numa_node_a_socket() -> None:
    assert "-smp 8,sockets=2,dies=2,cores=2 -m 4096M" in words("dhyana")
    assert "node,nodeid=0,memdev=mem0,cpus=0-3" in words("dhyana")
    assert "node,nodeid=1,memdev=mem1,cpus=4-7" in words("dhyana")


def test_far_memory_is_a_numa_node_without_processors() -> None:
    assert words("cxl,far=1G").endswith("-object memory-backend-ram,id=mem1,size=1024M -numa node,nodeid=1,memdev=mem1")
    assert "-m 3072M" in words("cxl,far=1G")


def test_emulation_avoids_the_broken_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "kvm_usable", lambda: False)
    assert machine.accelerator(parse_node("dhyana"))[-1] == "Dhyana,cx16=off"
    monkeypatch.setattr(machine, "kvm_usable", lambda: True)
    assert machine.accelerator(parse_node("plain"))[:2] == ["-accel", "kvm"]
