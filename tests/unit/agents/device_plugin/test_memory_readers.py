# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kernel's files are read as the kernel means them, and what can't be read is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MIB, MadeNode
from colocation.device_plugin import cgroup_tree, memory_readers
from colocation.device_plugin.accounting import Reading
from colocation.device_plugin.memory_readers import PAGE, Kept, NumaNode, Pressure, Roots, Unreadable

# Linux 6.18, as it was; hugepages are counted in pages, all else in kB.
MEMINFO = b"""MemTotal:       24684092 kB
MemFree:        18807592 kB
MemAvailable:   23368900 kB
Active(anon):       1616 kB
HugePages_Total:       4
Hugepagesize:       2048 kB
"""
NODE = b"""Node 1 MemTotal:       10000 kB
Node 1 MemFree:         2000 kB
Node 1 Active(file):    1000 kB
Node 1 Inactive(file):  3000 kB
Node 1 Shmem:            500 kB
Node 1 SReclaimable:     100 kB
"""


def test_the_machine() -> None:
    assert memory_readers.machine(MEMINFO) == Reading(24684092 << 10, 23368900 << 10)
    assert memory_readers.meminfo(MEMINFO)["HugePages_Total"] == 4
    with pytest.raises(Unreadable, match="meminfo has no MemAvailable"):
        memory_readers.machine(MEMINFO.replace(b"MemAvailable", b"Mem"))


def test_a_node_by_the_kernels_rule() -> None:
    kept = Kept(reserved=300 << 10, low=200 << 10)
    cache = (4000 - 200) + (100 - 50)  # a large part loses the low watermark, a small one its half
    assert memory_readers.node_reading(NODE, kept) == Reading(10000 << 10, (2000 - 300 + cache) << 10)
    assert memory_readers.node_reading(NODE, Kept(reserved=1 << 40)).available == 0
    with pytest.raises(Unreadable, match=r"no Inactive\(file\)"):
        memory_readers.node_reading(NODE.replace(b"Inactive(file)", b"Inactive"), kept)


ZONES = """Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 37559
  pages free     3840
        boost    0
        min      19
        low      23
        high     27
        promo    31
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 13131, 13131, 13131)
      nr_free_pages 3840
Node 0, zone   Normal
  pages free     100
        min      100
        low      200
        high     300
        managed  100000
        protection: (0, 0, 0, 0, 0)
Node 1, zone  Movable
  pages free     100
        min      1
        low      2
        high     3
        managed  50
        protection: (0, 0, 0, 0, 7)
"""


def test_what_zones_keep() -> None:
    """A zone keeps its high watermark and the largest protection, but never more than it has."""
    assert memory_readers.kept_pages(ZONES) == {
        0: Kept((3840 + 300) * PAGE, (23 + 200) * PAGE),
        1: Kept((3 + 7) * PAGE, 2 * PAGE),
    }
    assert memory_readers.kept_pages("") == {}


def test_lists_of_numbers_and_pressure() -> None:
    assert memory_readers.id_list("0-2,5\n") == (0, 1, 2, 5)
    assert memory_readers.id_list("\n") == ()
    with pytest.raises(Unreadable):
        memory_readers.id_list("none")
    text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=9\n"
    assert memory_readers.pressure(text) == Pressure(12.5, 3.0)
    with pytest.raises(Unreadable):
        memory_readers.pressure("")


def test_statistics_of_a_group() -> None:
    assert memory_readers.stat(b"anon 5\nfile 7\n") == {"anon": 5, "file": 7}
    for broken in (b"anon", b"anon five", b"anon 5 file"):
        with pytest.raises(Unreadable):
            memory_readers.stat(broken)
    by_node = memory_readers.numa_stat(b"anon N0=5 N1=6\nfile N0=7\nodd Nx=1 N2 N3=y\n")
    assert by_node == {0: {"anon": 5, "file": 7}, 1: {"anon": 6}}


@given(st.binary(max_size=200))
def test_no_text_makes_another_error(content: bytes) -> None:
    text = content.decode("latin-1")
    for reader in (memory_readers.machine, memory_readers.stat, memory_readers.numa_stat):
        try:
            reader(content)
        except Unreadable:
            pass
    for parse in (memory_readers.kept_pages, memory_readers.pressure):
        try:
            parse(text)
        except Unreadable:
            pass


def test_this_machine_can_be_read() -> None:
    reading = memory_readers.read_machine(Roots())
    assert 0 < reading.available <= reading.total


def test_nodes_with_and_without_processors(tmp_path: Path) -> None:
    node = MadeNode(tmp_path)
    node.numa({0: (8 * GIB, 3 * GIB), 2: (16 * GIB, 16 * GIB)}, without_cpu=(2,))
    found = memory_readers.read_nodes(Roots(str(node.proc), str(node.nodes)))
    assert found == (
        NumaNode(0, Reading(8 * GIB, 3 * GIB), True),
        NumaNode(2, Reading(16 * GIB, 16 * GIB), False),
    )


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/meminfo: No such file or directory"):
        memory_readers.read_machine(Roots(str(tmp_path)))
    assert memory_readers.read_pressure(str(tmp_path / "memory.pressure")) is None
    large = tmp_path / "large"
    large.write_bytes(b"x" * (1 << 16) * 2)
    assert len(memory_readers.read(str(large))) == 1 << 17


UIDS = ("0e8d0f3a-9c1b-4d37-8c55-1f2e3d4c5b6a", "7b1946d1a1b0f1c2d3e4f5a6b7c8d9e0")  # the second: a static pod's


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
@pytest.mark.parametrize("above", ["", "kubelet", "a.slice/kubelet.slice"])
def test_pods_are_found_in_either_layout(tmp_path: Path, driver: str, above: str) -> None:
    node = MadeNode(tmp_path, driver, above)
    expected = {}
    for number, quality in enumerate(("guaranteed", "burstable", "besteffort")):
        uid = f"{number}{UIDS[0][1:]}"
        expected[uid] = str(node.pod(uid, MIB, quality=quality))
    expected[UIDS[1]] = str(node.pod(UIDS[1], MIB, quality="burstable"))
    tree = cgroup_tree.PodTree(str(node.root))
    tree.refresh(0.0)
    assert tree.kubepods == str(node.kubepods)
    assert tree.pods == expected
    assert tree.problem == ""
    assert tree.lives(UIDS[1])
    assert not tree.lives("another")


def test_kind_s_names(tmp_path: Path) -> None:
    pod = tmp_path / "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
    pod /= f"kubelet-kubepods-burstable-pod{UIDS[0].replace('-', '_')}.slice"
    pod.mkdir(parents=True)
    found = cgroup_tree.find_kubepods(str(tmp_path))
    assert found == (str(tmp_path / "kubelet.slice/kubelet-kubepods.slice"),)
    assert cgroup_tree.pods(found[0]) == {UIDS[0]: str(pod)}


@pytest.mark.parametrize("name", ["system.slice", "crio-podman.slice", "podinfo", "pod", "besteffort", "pod-x"])
def test_other_directories_are_no_pods(name: str) -> None:
    assert cgroup_tree.pod_uid(name) == ""


def test_kubepods_that_goes_and_comes_elsewhere(tmp_path: Path) -> None:
    node = MadeNode(tmp_path / "a")
    tree = cgroup_tree.PodTree(str(node.root))
    tree.refresh(0.0)
    node.kubepods.rename(tmp_path / "gone")
    tree.refresh(0.0)
    assert "there is no kubepods" in tree.problem
    assert tree.pods == {}
    assert tree.lives("anybody")  # who can't tell does not take anything away
    (node.root / "kubepods").mkdir()
    tree.refresh(0.0)
    assert tree.kubepods == str(node.root / "kubepods")
    assert tree.problem == ""


@pytest.mark.parametrize(("old", "new"), [("cgroupfs", "systemd"), ("systemd", "cgroupfs")])
def test_a_kubepods_that_is_left_over_hides_no_pods(tmp_path: Path, old: str, new: str) -> None:
    """The kubelet's driver was changed, and the node not started anew."""
    before = MadeNode(tmp_path, old)
    left = before.pod(UIDS[1], MIB)
    after = MadeNode(tmp_path / "after", new)
    expected = {f"{number}{UIDS[0][1:]}" for number in range(2)}
    tree = cgroup_tree.PodTree(str(before.root))
    tree.refresh(0.0)
    assert tree.pods == {UIDS[1]: str(left)}
    for uid in (*expected, UIDS[1]):
        after.pod(uid, MIB)
    after.kubepods.rename(before.root / after.kubepods.name)
    tree.refresh(cgroup_tree.FIND_SECONDS)
    assert tree.pods.keys() == {*expected, UIDS[1]}
    assert tree.kubepods == str(before.root / after.kubepods.name)
    assert {Path(path).is_relative_to(tree.kubepods) for path in tree.pods.values()} == {True}, "the static pod's too"


def test_version_1_is_told(tmp_path: Path) -> None:
    tree = cgroup_tree.PodTree(str(tmp_path))
    tree.refresh(0.0)
    assert tree.problem == f"{tmp_path} has no control groups of version 2"
