# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Machines, read from folders with the files that the kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import (
    MACHINES,
    Made,
    MadeFiles,
    ccx_lists,
    files,
    machine,
    write,
)
from colocation.cri_proxy import topology
from colocation.cri_proxy.cpus import parse, show, union


def test_a_hygon_c86_has_two_ccxs_a_die_and_threads_far_apart() -> None:
    found = machine("hygon-c86")
    assert [[numa.id for numa in socket.numas] for socket in found.sockets] == [[0, 1], [2, 3]]
    assert [show(numa.cpus) for numa in found.numas] == ["0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"]
    assert ccx_lists(found)[:3] == ["0-3,32-35", "4-7,36-39", "8-11,40-43"]
    assert len(found.ccxs) == 8
    assert [show(core) for core in found.ccxs[0].cores] == ["0,32", "1,33", "2,34", "3,35"]
    assert found.ccxs[5].numa == 2 and found.ccxs[5].socket == 1 and found.ccxs[5].cache_kib == 8192
    assert (found.distance(0, 0), found.distance(0, 1), found.distance(1, 2)) == (10, 16, 32)
    assert found.memory_kib[3] == 64 << 20
    assert found.notes == ()


@pytest.mark.parametrize(
    ("name", "sockets", "numas", "ccxs", "cpus_of_a_ccx"),
    [
        ("hygon-7185", 2, 8, 16, 8),
        ("rome-nps1", 2, 2, 32, 8),
        ("rome-nps4", 2, 8, 32, 8),
        ("milan", 2, 2, 16, 16),
        ("genoa", 2, 8, 24, 16),
        ("vm-without-l3", 1, 2, 2, 8),
        ("intel", 2, 2, 2, 56),
        ("intel-snc2", 2, 4, 4, 28),
        ("one-cpu", 1, 1, 1, 1),
        ("dhyana-emulated", 2, 2, 4, 2),
    ],
)
def test_known_machines(name: str, sockets: int, numas: int, ccxs: int, cpus_of_a_ccx: int) -> None:
    found = machine(name)
    assert (len(found.sockets), len(found.numas), len(found.ccxs)) == (sockets, numas, ccxs)
    assert {ccx.cpus.bit_count() for ccx in found.ccxs} == {cpus_of_a_ccx}


@pytest.mark.parametrize("name", MACHINES)
def test_each_cpu_is_in_one_ccx_of_one_node_of_one_socket(name: str) -> None:
    found = machine(name)
    for part in (found.sockets, found.numas, found.ccxs):
        assert sum(one.cpus.bit_count() for one in part) == found.online.bit_count()
        assert union(one.cpus for one in part) == found.online
    assert all(union(ccx.cores) == ccx.cpus for ccx in found.ccxs)
    assert [ccx.index for ccx in found.ccxs] == list(range(len(found.ccxs)))


def test_a_machine_without_l3_says_that_the_numa_node_stands_for_the_ccx() -> None:
    found = machine("vm-without-l3")
    assert [ccx.cpus for ccx in found.ccxs] == [numa.cpus for numa in found.numas]
    assert len(found.notes) == 2 and "is not shown; the node stands for the CCX" in found.notes[0]


def test_a_cache_over_several_numa_nodes_is_none_of_them() -> None:
    found = machine("intel-snc2")
    assert [ccx.cpus for ccx in found.ccxs] == [numa.cpus for numa in found.numas]
    assert "reaches over several NUMA nodes" in found.notes[0]


def test_a_cache_for_each_cpu_is_taken_for_an_artefact_unless_it_is_wanted() -> None:
    made = Made(ccxs=2, l3="cpu")
    assert len(machine(made).ccxs) == 1 and "topoext" in machine(made).notes[0]
    assert len(machine(made, "l3").ccxs) == 8


def test_ids_tell_caches_apart_only_where_each_has_several_cpus() -> None:
    assert ccx_lists(machine("dhyana-emulated")) == ["0-1", "2-3", "4-5", "6-7"]
    assert ccx_lists(machine(Made(ccxs=4, cores=1, l3="socket", ids="ccx"))) == ["0-3"]
    assert ccx_lists(machine(Made(ccxs=2, cores=2, l3="socket", ids="none"))) == ["0-3"]


def test_numa_nodes_can_be_chosen() -> None:
    found = machine("hygon-c86", "numa")
    assert len(found.ccxs) == 4 and found.notes == ()


def test_offline_cpus_do_not_exist() -> None:
    found = machine(Made(sockets=2, numas=2, ccxs=2, threads=2, offline="0,32,4-7,36-39,16-31,48-63"))
    assert ccx_lists(found) == ["1-3,33-35", "8-11,40-43", "12-15,44-47"]
    assert len(found.sockets) == 1 and len(found.numas) == 2


def test_one_thread_offline_leaves_its_sibling() -> None:
    found = machine(Made(cores=2, threads=2, offline="2"))
    assert [show(core) for core in found.ccxs[0].cores] == ["0", "1,3"]


def test_isolated_cpus_are_known() -> None:
    assert show(machine(Made(isolated="2-3")).isolated) == "2-3"


def test_nodes_with_memory_only_are_no_place_for_containers() -> None:
    found = machine(Made(sockets=2, memory_nodes=1))
    assert [numa.id for numa in found.numas] == [0, 1]
    assert found.distance(0, 2) == 50 and found.memory_kib[2]


def test_without_numa_files_the_machine_is_one_node() -> None:
    found = machine(Made(sockets=2, ccxs=2, numa_files=False))
    assert len(found.numas) == 1 and len(found.ccxs) == 4
    assert "no NUMA nodes" in found.notes[0]
    assert found.distance(0, 0) == 10


def test_packages_that_share_a_node_are_one_socket() -> None:
    found = machine(Made(numas=2, packages_by_cpu=True))
    assert [(socket.id, len(socket.numas)) for socket in found.sockets] == [(0, 1), (4, 1)]


def test_an_unknown_package_is_the_first(tmp_path: Path) -> None:
    write(Made(cores=2), tmp_path)
    for cpu in (0, 1):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id").write_text("-1\n")
    assert [socket.id for socket in topology.read(topology.Folder(tmp_path)).sockets] == [0]


def test_old_kernels_call_threads_siblings() -> None:
    made = files(Made(cores=2, threads=2)).texts
    old = MadeFiles({name.replace("core_cpus_list", "thread_siblings_list"): text for name, text in made.items()})
    assert [show(core) for core in topology.read(old).ccxs[0].cores] == ["0,2", "1,3"]


def test_a_missing_description_is_named(tmp_path: Path) -> None:
    with pytest.raises(topology.NoTopology, match="cpu/online can't be read: No such file"):
        topology.read(topology.Folder(tmp_path))


@pytest.mark.parametrize("text", ["", "zero", "0-"])
def test_a_description_that_makes_no_sense_is_named(tmp_path: Path, text: str) -> None:
    write(Made(), tmp_path)
    (tmp_path / "sys/devices/system/cpu/online").write_text(text)
    with pytest.raises(topology.NoTopology, match="cpu/online"):
        topology.read(topology.Folder(tmp_path))


@given(st.data())
def test_any_garbage_in_the_files_leaves_a_whole_machine_or_an_error(data: st.DataObject) -> None:
    made = files(Made(sockets=2, ccxs=2, cores=2))
    for victim in data.draw(st.lists(st.sampled_from(sorted(made.texts)), max_size=4)):
        made.texts[victim] = data.draw(st.text(max_size=30) | st.sampled_from(["0-3", "99", "-1", "0-16383"]))
    try:
        found = topology.read(made)
    except topology.NoTopology:
        return
    assert union(ccx.cpus for ccx in found.ccxs) == found.online
    assert sum(ccx.cpus.bit_count() for ccx in found.ccxs) == found.online.bit_count()


def test_the_fingerprint_changes_when_a_cpu_goes(tmp_path: Path) -> None:
    write(Made(), tmp_path)
    before = topology.fingerprint(topology.Folder(tmp_path))
    write(Made(offline="3"), tmp_path)
    assert topology.fingerprint(topology.Folder(tmp_path)) != before


def test_this_machine_can_be_read() -> None:
    found = topology.read(topology.Folder())
    assert found.online == parse(Path("/sys/devices/system/cpu/online").read_text())
